// One training iteration of a transformer on every system of three axes of bandwidths, as one writes it in C++: nested
// loops, every sum in the outermost loop that knows its terms, the innermost one over contiguous memory.
// benchmarks/peer_cpp.py calls it for each chip and network.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

// Seconds of compute, bytes to and from memory, and seconds of messages times bandwidth, over links and outer links.
struct Operator {
    double compute_s, traffic_B, inner_B, outer_B;
};

struct Times {
    double passes, transfer_B, utilised_s;
};

// Price or power: of the chips, and per byte per second of memory, links and outer links.
struct Parts {
    double fixed, memory, inner, outer;
};

}  // namespace

extern "C" void peer(std::int64_t memories, const double* memory_Bps, std::int64_t inners, const double* inner_Bps,
                     std::int64_t outers, const double* outer_Bps, std::int64_t count, const Operator* operators,
                     const Times* times, const Parts* price, const Parts* power, double* __restrict time_s,
                     double* __restrict utilisation, double* __restrict price_usd, double* __restrict power_W) {
    std::vector<double> gradient_s(outers);
    for (std::int64_t m = 0; m < memories; ++m) {
        double alone_s = 0.0;
        std::fill(gradient_s.begin(), gradient_s.end(), 0.0);
        for (std::int64_t i = 0; i < count; ++i) {
            const double busy_s = std::max(operators[i].compute_s, operators[i].traffic_B / memory_Bps[m]);
            if (operators[i].outer_B > 0.0) {
                for (std::int64_t o = 0; o < outers; ++o)
                    gradient_s[o] += std::max(busy_s, operators[i].outer_B / outer_Bps[o]);
            } else if (operators[i].inner_B == 0.0) {
                alone_s += busy_s;
            }
        }
        for (std::int64_t n = 0; n < inners; ++n) {
            double layer_s = alone_s;
            for (std::int64_t i = 0; i < count; ++i)
                if (operators[i].inner_B > 0.0)
                    layer_s += std::max({operators[i].compute_s, operators[i].traffic_B / memory_Bps[m],
                                         operators[i].inner_B / inner_Bps[n]});
            const std::int64_t at = (m * inners + n) * outers;
            const double near_usd = price->fixed + price->memory * memory_Bps[m] + price->inner * inner_Bps[n];
            const double near_W = power->fixed + power->memory * memory_Bps[m] + power->inner * inner_Bps[n];
            for (std::int64_t o = 0; o < outers; ++o) {
                const double total_s = times->passes * (layer_s + gradient_s[o]) + times->transfer_B / outer_Bps[o];
                time_s[at + o] = total_s;
                utilisation[at + o] = times->utilised_s / total_s;
                price_usd[at + o] = near_usd + price->outer * outer_Bps[o];
                power_W[at + o] = near_W + power->outer * outer_Bps[o];
            }
        }
    }
}
