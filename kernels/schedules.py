from kernels.equation import compiled
@compiled
def pipeline_time(schedule, stages, microbatches, virtual_stages, f, g, w, ff, fb, lf, lb, transfer):
    full = f + g + w
    slow = full + max(ff + fb, lf + lb)
    p2p = 2.0 * virtual_stages * transfer if stages > 1.0 else 0.0
    if stages == 1.0:
        return microbatches * (full + ff + fb + lf + lb), 0.0
    b = (stages - 1.0) / virtual_stages * (full + p2p)
    return microbatches * (slow + p2p) + b, b
@compiled
def in_flight(schedule, stages, microbatches, virtual_stages, stage_index):
    return min(microbatches, stages - stage_index)
@compiled
def parameter_copies(schedule):
    return 1.0
