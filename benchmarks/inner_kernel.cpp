// The equations of the last stages of a search of dse80, by hand: from the inputs of every point to its time and the
// reason why it is infeasible. benchmarks/inner_kernel.py writes inputs.inc, which lists the indices, and the columns
// with how each is read: CONSTANT, or GATHERED through an index. Reasons are macros with the numbers of kernels/codes.py.
// Everything else stands here.
//
// rows() is the plain loop over structures of arrays; blocks() gathers into small local arrays first, so that the
// arithmetic runs over contiguous memory.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

constexpr std::int64_t BLOCK = 264;

struct Point {
#define INDEX(number)
#define CONSTANT(name, column) double name;
#define GATHERED(name, column, number) double name;
#include "inputs.inc"
#undef INDEX
#undef CONSTANT
#undef GATHERED
};

inline double memory_need_B(const Point& p) {
    double state = p.parameters_B + p.gradients_B;
    if (p.gradients_B > 0.0) state += p.parameters_B / p.word_B * p.optimizer_state_B;
    const double in_flight = std::min(p.pipeline_parallel, p.microbatches / p.steps);
    return p.resident_B + p.repeats_per_stage * (state + in_flight * p.stored_activations_B) + p.live_activations_B;
}

inline double infeasible_reason(const Point& p) {
    double reason = p.memory_capacity_B - memory_need_B(p) < 0.0 ? MEMORY_CAPACITY : 0.0;
    reason = p.chip_sram_capacity_B - p.partition_sram_B < 0.0 ? SRAM_CAPACITY : reason;
    reason = std::floor(p.microbatches) != p.microbatches ? MICROBATCH_INDIVISIBLE : reason;
    reason = p.data_parallel > p.batch ? TOO_MANY_REPLICAS : reason;
    reason = p.pipeline_parallel > p.layers ? TOO_MANY_STAGES : reason;
    reason = p.tensor_parallel * p.pipeline_parallel * p.data_parallel != p.chips ? PARALLELISM_MISMATCH : reason;
    return p.linked_chips != p.chips ? CHIPS_MISMATCH : reason;
}

inline double transfer_s(const Point& p) {
    const double crossings = p.gradients_B > 0.0 ? 2.0 : 1.0;
    const double time = crossings * (p.stage_boundary_B / p.stage_link_Bps + p.stage_hop_s);
    return p.pipeline_parallel <= 1.0 || p.stage_boundary_B <= 0.0 ? 0.0 : time;
}

inline double iteration_time_s(const Point& p) {
    const double transfer = transfer_s(p);
    const double serial = p.pass_time_s + transfer;
    const double steady = p.overlap == 0.0 ? serial : std::max(p.pass_time_s, transfer);
    const double bubble = p.steps * (p.pipeline_parallel - 1.0) * serial;
    const double pipeline = p.microbatches * steady + bubble;
    const double all_reduce =
        p.repeats_per_stage * (p.gradients_B * p.all_reduce_data_s_per_B + p.all_reduce_data_latency_s);
    const double exposed = p.steps * std::max(all_reduce - p.pass_backward_time_s, 0.0);
    const double gradient = p.gradients_B <= 0.0 ? 0.0 : exposed;
    return pipeline + gradient + p.optimizer_time_s;
}

}  // namespace

extern "C" void rows(std::int64_t n, const std::int32_t* const* indices, const double* const* columns,
                     double* __restrict reasons, double* __restrict times) {
#define INDEX(number) const std::int32_t* __restrict index_##number = indices[number];
#define CONSTANT(name, column) const double all_##name = columns[column][0];
#define GATHERED(name, column, number) const double* __restrict all_##name = columns[column];
#include "inputs.inc"
#undef INDEX
#undef CONSTANT
#undef GATHERED
    for (std::int64_t t = 0; t < n; ++t) {
        Point p;
#define INDEX(number)
#define CONSTANT(name, column) p.name = all_##name;
#define GATHERED(name, column, number) p.name = all_##name[index_##number[t]];
#include "inputs.inc"
#undef INDEX
#undef CONSTANT
#undef GATHERED
        reasons[t] = infeasible_reason(p);
        times[t] = iteration_time_s(p);
    }
}

extern "C" void blocks(std::int64_t n, const std::int32_t* const* indices, const double* const* columns,
                       double* __restrict reasons, double* __restrict times) {
#define INDEX(number) const std::int32_t* __restrict index_##number = indices[number];
#define CONSTANT(name, column) const double all_##name = columns[column][0];
#define GATHERED(name, column, number)                      \
    const double* __restrict all_##name = columns[column];  \
    double block_##name[BLOCK];
#include "inputs.inc"
#undef INDEX
#undef CONSTANT
#undef GATHERED
    for (std::int64_t start = 0; start < n; start += BLOCK) {
        const std::int64_t m = std::min(BLOCK, n - start);
#define INDEX(number)
#define CONSTANT(name, column)
#define GATHERED(name, column, number) \
    for (std::int64_t t = 0; t < m; ++t) block_##name[t] = all_##name[index_##number[start + t]];
#include "inputs.inc"
#undef CONSTANT
#undef GATHERED
        for (std::int64_t t = 0; t < m; ++t) {
            Point p;
#define CONSTANT(name, column) p.name = all_##name;
#define GATHERED(name, column, number) p.name = block_##name[t];
#include "inputs.inc"
#undef INDEX
#undef CONSTANT
#undef GATHERED
            reasons[start + t] = infeasible_reason(p);
            times[start + t] = iteration_time_s(p);
        }
    }
}
