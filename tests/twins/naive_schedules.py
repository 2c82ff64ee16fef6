"""Naive twins of transformers/schedules.py in plain Python: every candidate path is spelled out as a list of visits.

Same names, same parameters as the kernels; schedules by number. Meant to be pasted into tests/twins/naive.py.
"""

from math import ceil

from sweeper.kernels.codes import SCHEDULES


def pipeline_time(
    schedule, stages, microbatches, virtual_stages, forward_s, input_gradient_s, weight_gradient_s,
    first_extra_forward_s, first_extra_backward_s, last_extra_forward_s, last_extra_backward_s, transfer_s,
):  # fmt: skip
    """Longest of the candidate paths, and what it has beyond the work and messages of the busiest stage."""
    name = SCHEDULES[int(schedule)]
    p, m = int(stages), microbatches
    v = virtual_stages if name == "interleaved" else 1.0
    f, b, w, t = forward_s, input_gradient_s, weight_gradient_s, transfer_s
    whole = b + w
    fe, be, fl, bl = first_extra_forward_s, first_extra_backward_s, last_extra_forward_s, last_extra_backward_s
    if p == 1:
        return m * (f + whole + fe + be + fl + bl), 0.0
    late = w if name == "zero_bubble_h1" else 0.0
    down = [f + t] * p
    down[0] += fe
    down[-1] += fl - t
    up = [whole - late + t] * p
    up[0] += be - t
    up[-1] += bl
    both = [x + y for x, y in zip(down, up)]
    if whole + be + bl == 0.0:
        busiest = m * max(down)
        paths = [busiest, sum(down) + (m - 1) * max(down)]
        if v > 1:
            slots = m * v + p - 1 + (v - 1) * (ceil(m / p) * p - m)
            ends = [min(m, p) * fe + (fl - t) + (m - 1) * max(fl - t, 0.0), m * fe + (fl - t)]
            busiest += m * (v - 1) * t
            paths = [busiest, slots * (f / v + t) + max(ends)]
        return max(paths), max(paths) - busiest
    busiest = m * (max(both) + late)
    if name == "gpipe":
        paths = [sum(down) + (m - 1) * max(down) + sum(up) + (m - 1) * max(up)]
    elif name == "dual_pipe":
        mean = (fe + be + fl + bl) / 2
        end, middle = f + whole + mean + t, f + whole + 2 * t
        busiest = m * (max(end, middle) if p > 2 else end)
        half = ceil(p / 2) - 1
        n = max(2 * ceil(m / 2), 4 * ceil(p / 2))
        paths = [n * end + half * max(b - w, 0.0)]
        if p > 2:
            idle = half * (f + max(f, b) + b - min(w, b)) - min(f, half * max(b - f, 0.0)) + 3 * (half - 1) * t
            paths.append(n * middle + idle + (n - 2 * p + 2) * max(mean - t, 0.0))
    elif v > 1:
        busiest = m * (max(both) + 2 * (v - 1) * t)
        gaps = (v - 1) * (ceil(m / p) * p - m) * (whole / v + t + (f / v + t if m < p else 0.0))
        first, last = fe + be, fl + bl
        chunk = (f + whole) / v + 2 * t
        paths = [
            gaps + m * (f + whole + first + (2 * v - 1) * t),
            gaps + min(m, p) * first + (p - 1) * chunk - t + m * (f + whole + last + (2 * v - 1) * t),
        ]
        if p > 2:
            paths.append(gaps + min(m, p) * first + (p - 2) * chunk - t + m * (f + whole + 2 * v * t))
    else:
        paths = list(alternating_paths(p, m, down, up, late))
    total = max(*paths, busiest)
    return total, total - busiest


def alternating_paths(p, m, down, up, late):
    """Candidate paths of 1F1B and ZB-H1: stage by stage, visits times length."""
    both = [x + y for x, y in zip(down, up)]
    kept = max(m - p, 0.0) + 1
    yield sum(both[:-1]) + m * both[-1] + kept * late
    if p > 2:
        yield both[0] + (p - 2 + max(m - 2, 0.0)) * both[1] + min(m, 2) * both[-1] + kept * late
    if m > p:
        yield kept * both[0] + 2 * sum(both[1:]) + kept * late
    yield kept * (down[0] + late) + sum(both[1:]) + m * up[0] + (m - kept) * late
    yield m * down[0] + sum(both[1:]) + kept * (up[0] + late)
    if m > 1:
        middles = p - 2 + min(m - 2, p - 2)
        for end in (down[0], up[0]):
            yield kept * (both[0] + late) + middles * (both[1] if p > 2 else 0.0) + both[-1] + end
    yield sum(down[:-1]) + m * (both[-1] + late) + min(max(p - m, 0), p - 2) * (up[1] if p > 2 else 0.0)


def in_flight(schedule, stages, microbatches, virtual_stages, stage_index):
    """Microbatches that a stage has begun and not ended, at most."""
    name = SCHEDULES[int(schedule)]
    p, m = stages, microbatches
    if name == "gpipe":
        return m
    if p == 1:
        return 1.0
    if name == "zero_bubble_h1":
        return min(m, p)
    if name == "dual_pipe":
        return p + 1
    if name == "interleaved" and virtual_stages > 1:
        return min(m, (2 * (p - 1 - stage_index) + (virtual_stages - 1) * p + 1) / virtual_stages)
    return min(m, p - stage_index)


def parameter_copies(schedule):
    """DualPipe keeps the stages of both directions."""
    return 2.0 if SCHEDULES[int(schedule)] == "dual_pipe" else 1.0
