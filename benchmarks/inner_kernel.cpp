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
constexpr double ROOM = 1.0 + 1e-9;

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
    double state = p.parameters_B + p.graph_gradients_B;
    if (p.graph_gradients_B > 0.0) state += p.parameters_B / p.word_B * p.optimizer_state_B;
    const double in_flight = std::min(p.pipeline_parallel * p.resident_microbatches, p.microbatches / p.steps);
    const double stays = p.resident_B + p.repeats_per_stage * (state + in_flight * p.stored_activations_B);
    return stays + p.resident_microbatches * p.live_activations_B;
}

inline bool whole(double number) { return std::floor(number) == number; }

inline double infeasible_reason(const Point& p) {
    double reason = memory_need_B(p) > p.memory_capacity_B * ROOM ? MEMORY_CAPACITY : 0.0;
    reason = p.partition_sram_B > p.chip_sram_capacity_B * ROOM ? SRAM_CAPACITY : reason;
    reason = whole(p.microbatches / p.resident_microbatches) ? reason : MICROBATCH_INDIVISIBLE;
    reason = whole(p.microbatches) ? reason : MICROBATCH_INDIVISIBLE;
    reason = p.data_parallel > p.batch ? TOO_MANY_REPLICAS : reason;
    reason = p.pipeline_parallel > p.layers * p.stages_per_graph ? TOO_MANY_STAGES : reason;
    reason = p.tensor_parallel * p.pipeline_parallel * p.data_parallel != p.chips ? PARALLELISM_MISMATCH : reason;
    reason = p.linked_chips != p.chips ? CHIPS_MISMATCH : reason;
    return p.chip_reason != 0.0 ? p.chip_reason : reason;
}

// The value of overlap by which all of a pass runs side by side: kernels/graphs/partition.py.
constexpr double BESIDE = 1.0;

// Time of a pass and its transfers, which follow it where it is streamed.
inline double steady_s(const Point& p, double transfer) {
    return p.overlap == BESIDE ? std::max(p.pass_time_s, transfer) : p.pass_time_s + transfer;
}

// By how much the reduction of gradients and the backward pass beside it take longer since they share links.
inline double waiting_s(const Point& p, double reduce) {
    const double pass = p.pass_backward_time_s;
    const double share = p.pass_time_s > 0.0 ? p.pass_network_time_s * pass / p.pass_time_s : 0.0;
    const double sent = std::min(share, pass);
    const bool alone = p.tensor_beside_data == 1.0 && p.data_beside_tensor == 1.0;
    const double slowed = sent / p.tensor_beside_data;
    const double idle = std::min(p.overlap == BESIDE ? pass : 0.0, pass - sent);
    const double late = std::max(slowed - sent - idle, 0.0);
    const double hidden = pass + late - (1.0 - p.data_beside_tensor) * slowed;
    const double waits =
        std::min(reduce / hidden, 1.0) * late + std::max(reduce - hidden, 0.0) - std::max(reduce - pass, 0.0);
    return alone || reduce <= 0.0 || sent <= 0.0 ? 0.0 : waits;
}

inline double iteration_time_s(const Point& p) {
    const double transfer = (p.graph_gradients_B > 0.0 ? 2.0 : 1.0) * p.boundary_time_s;
    const double filling = p.other_stages_time_s + (p.pipeline_parallel - 1.0) * transfer;
    const double pipeline = p.microbatches * steady_s(p, transfer) + p.steps * p.resident_microbatches * filling;
    const double all_reduce =
        p.repeats_per_stage * (p.graph_gradients_B * p.all_reduce_data_s_per_B + p.all_reduce_data_latency_s);
    const double exposed = std::max(all_reduce - p.pass_backward_time_s, 0.0) + waiting_s(p, all_reduce);
    const double gradient = p.graph_gradients_B <= 0.0 ? 0.0 : p.steps * exposed;
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
