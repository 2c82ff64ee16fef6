"""Closed forms of pipeline schedules: time of all microbatches, activations in flight, copies of the parameters.

All forms describe the same machine. A stage does its tasks in the order that the schedule prescribes. A message to
the neighbouring stage occupies the sender and is not overlapped; the receiver waits until it is complete, or finds it
if it comes later. Stages do the same, except that the first and the last have something extra. A schedule is a graph
of tasks, its time is the longest path: each form is the longest of the few paths that can be longest in practice, and
its docstring says when it is exact. Notation: F, B and W are forward, input and weight gradient of one microbatch on
one stage, t a message, p stages, m microbatches, v chunks per stage.

Sources: Huang 2019 (GPipe), Narayanan 2021 (1F1B and interleaved, sections 2.2.1 and 2.2.2), Qi 2024, arXiv
2401.10241 (ZB-H1, section 2 and table 2), DeepSeek-V3, arXiv 2412.19437 (DualPipe, section 3.2.1 and table 2).
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import SCHEDULES
from sweeper.kernels.equation import Output, compiled, equation

GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE_H1, DUAL_PIPE = range(len(SCHEDULES))


class Pipeline(NamedTuple):
    """A pipeline: its schedule, its stages, the microbatches that pass it, and the chunks of a stage, which count under
    the interleaved schedule (one: it is 1F1B)."""

    schedule: float
    pipeline_parallel: float
    microbatches: float
    virtual_stages: float


class Passes(NamedTuple):
    """Seconds of the passes of one microbatch: forward, gradients of inputs and gradients of weights."""

    forward_s: float
    input_gradient_s: float
    weight_gradient_s: float


class BothWays(NamedTuple):
    """Seconds beside or beyond the passes of one microbatch, forward and backward."""

    forward_s: float
    backward_s: float


class Along(NamedTuple):
    """Seconds of the first stage, of one in the middle, and of the last."""

    first: float
    middle: float
    last: float


@compiled
def chunks_of(pipeline: Pipeline) -> float:
    """Chunks of a stage; those of other schedules are whole."""
    return pipeline.virtual_stages if pipeline.schedule == INTERLEAVED else 1.0


@compiled
def slowest(stages: float, each: Along) -> float:
    """Largest of the stages' times, for two stages or more."""
    ends = max(each.first, each.last)
    return max(ends, each.middle) if stages > 2.0 else ends


@compiled
def one_way(stages: float, microbatches: float, each: Along) -> float:
    """Microbatches that pass all stages in one direction: one passes all, the others follow at the slowest stage's
    pace. Exact for any times."""
    through = each.first + (stages - 2.0) * each.middle + each.last
    return through + (microbatches - 1.0) * slowest(stages, each)


@compiled
def there_and_back(stages: float, microbatches: float, both: Along) -> float:
    """Path of 1F1B that takes each stage's forward and backward pass, here one number, equally often.

    The first microbatch goes down to the last stage and back, and so does the last one; between these two trips the
    slowest stage works without a break. A trip takes the place of up to p microbatches of the first stage, of two or
    three of a middle stage, and of none of the last stage.
    """
    p, m = stages, microbatches
    first, middle, last = both
    middles = (p - 2.0) * middle
    longest = first + middles + m * last
    if p > 2.0:
        longest = max(longest, first + middles + max(m - 2.0, 0.0) * middle + min(m, 2.0) * last)
    if m > p:
        longest = max(longest, (m - p + 1.0) * first + 2.0 * (middles + last))
    return longest


@compiled
def one_f_one_b_time(stages: float, microbatches: float, forward: Along, backward: Along, delayed_s: float) -> float:
    """1F1B, and ZB-H1 where `delayed_s` is the gradient of weights, which stage i starts i microbatches late.

    On the path of `there_and_back` delayed gradients of up to p - 1 microbatches fall into gaps. Other paths make only
    one whole trip, and so lack p - 1 of the first stage's forward or backward passes, or their second trip ends before
    the last stage and they lack one of them. Where delayed gradients are long, the first or the last stage works on
    them without a break; with m < p, stage m - 1 has all of them at its end.
    """
    p, m, w = stages, microbatches, delayed_s
    both = Along(forward.first + backward.first, forward.middle + backward.middle, forward.last + backward.last)
    first, middle, last = both
    steady = m - min(m, p) + 1.0
    trip = (p - 2.0) * middle + last
    balanced = there_and_back(p, m, both) + steady * w
    more_forward = m * forward.first + trip + steady * (backward.first + w)
    more_backward = steady * forward.first + trip + m * (backward.first + w)
    up = min(max(p - m, 0.0), p - 2.0)
    at_last = forward.first + (p - 2.0) * forward.middle + m * (last + w) + up * backward.middle
    longest = max(balanced, more_forward, more_backward, at_last)
    if m > 1.0:
        short_trip = min(m - 2.0, p - 2.0) * middle + max(forward.first, backward.first)
        longest = max(longest, steady * (first + w) + trip + short_trip)
    return longest


@compiled
def partial_group(stages: float, microbatches: float) -> float:
    """Microbatches that a last, incomplete group of p lacks."""
    return np.ceil(microbatches / stages) * stages - microbatches


@compiled
def interleaved_time(
    pipeline: Pipeline, stage: Passes, first_extra_s: float, last_extra_s: float, transfer_s: float
) -> float:
    """Interleaved 1F1B. Stage i works on all microbatches without a break after i chunks before its first and i behind
    its last; the last stage governs unless messages or extras make another one slower. What the first stage has extra
    delays it by p microbatches, which pass the first chunk before any passes the second.

    A group of fewer than p microbatches leaves gaps between its chunks, in the backward pass, and in the forward pass
    if there is no other group whose backward pass runs there. Without messages and extras exact if m is a multiple of
    p or less than p, and otherwise for two chunks if B + W >= F; more chunks leave up to a third of the forward gaps
    open. Messages: the last stage sends 2v - 1 per microbatch, a middle one 2v.
    """
    _, p, m, v = pipeline
    t, backward_s = transfer_s, stage.input_gradient_s + stage.weight_gradient_s
    forward, backward = stage.forward_s / v, backward_s / v
    work = stage.forward_s + backward_s
    gap = backward + t + (forward + t if m < p else 0.0)
    gaps = (v - 1.0) * partial_group(p, m) * gap
    down_and_up = forward + backward + 2.0 * t
    fill = min(m, p) * first_extra_s - t
    last = fill + (p - 1.0) * down_and_up + m * (work + (2.0 * v - 1.0) * t + last_extra_s)
    first = m * (work + (2.0 * v - 1.0) * t + first_extra_s)
    if p <= 2.0:
        return max(first, last) + gaps
    middle = fill + (p - 2.0) * down_and_up + m * (work + 2.0 * v * t)
    return max(first, middle, last) + gaps


@compiled
def interleaved_forward_time(
    pipeline: Pipeline, forward_s: float, first_extra_s: float, last_extra_s: float, transfer_s: float
) -> float:
    """Forward passes alone: chunk after chunk, each with its message but the last. What the last stage has extra first
    takes the place of the message that it does not send. Exact if only the last stage has extras, of up to F/2."""
    _, p, m, v = pipeline
    slots = m * v + p - 1.0 + (v - 1.0) * partial_group(p, m)
    end = last_extra_s - transfer_s
    extra = max(min(m, p) * first_extra_s + end + (m - 1.0) * max(end, 0.0), m * first_extra_s + end)
    return slots * (forward_s / v + transfer_s) + extra


@compiled
def dual_pipe_bubble(stages: float, stage: Passes) -> float:
    """Idle time of every stage under DualPipe, forward and backward of a pair one after the other.

    DeepSeek-V3's (p/2 - 1)(F&B + B - 3W), where B is the whole backward pass and F&B = F + B, is this for F = B >= W
    in the notation here; the general form follows from playing the schedule, and is exact without messages.
    """
    half = np.ceil(stages / 2.0) - 1.0
    f, b, w = stage
    published = half * (f + max(f, b) + b - min(w, b))
    return published - min(f, half * max(b - f, 0.0))


@compiled
def dual_pipe_microbatches(stages: float, microbatches: float) -> float:
    """DualPipe runs an even number of microbatches, at least two per stage: fewer are padded with empty ones."""
    return 2.0 * max(np.ceil(microbatches / 2.0), 2.0 * np.ceil(stages / 2.0))


@compiled
def dual_pipe_time(stages: float, microbatches: float, stage: Passes, end_extra_s: float, transfer_s: float) -> float:
    """DualPipe. A middle stage sends both ways, an end stage one way; both ends have the same extra work, here the mean
    over the microbatches of both directions.

    Either the middle stages govern, and the ends' gaps take in the extras of 2p - 2 microbatches, or the ends work
    without a break but for the last gradients. Exact without messages and extras.
    """
    p, t = stages, transfer_s
    m = dual_pipe_microbatches(p, microbatches)
    half = np.ceil(p / 2.0) - 1.0
    f, b, w = stage
    work = f + b + w
    ends = m * (work + t + end_extra_s) + half * max(b - w, 0.0)
    if p <= 2.0:
        return ends
    bubble = dual_pipe_bubble(p, stage) + 3.0 * (half - 1.0) * t
    later = (m - 2.0 * p + 2.0) * max(end_extra_s - t, 0.0)
    return max(ends, m * (work + 2.0 * t) + bubble + later)


@equation(
    Output("pipeline_time_s", "s", "all microbatches through the pipeline, with its bubble"),
    Output("bubble_time_s", "s", "time in which a stage waits for the pipeline to fill and drain"),
    source="closed forms of the schedules",
    when=("task", ("training",)),
)
def pipeline_time(
    pipeline: Pipeline,
    stage: Annotated[Passes, "stage_{}"],
    first: Annotated[BothWays, "first_{}"],
    last: Annotated[BothWays, "last_extra_{}"],
    stage_transfer_s: float,
) -> tuple[float, float]:
    """Seconds of all microbatches, and the part in which the stage with most to do, messages included, waits.

    `stage` are the times of one full stage, `first` and `last` what those stages take beyond it, `stage_transfer_s` is
    one message between neighbours. Without gradients there is only a forward pass, under DualPipe in one direction.

    Exact for equal stages without messages (but see `interleaved_time` where p does not divide m); for GPipe and for
    forward passes without chunks always; for 1F1B also with messages and extras, if none is longer than the pass that
    it prolongs. With ends and messages as models have them (F <= B <= 2F, F/2 <= W <= F, an embedding of up to F/5, a
    head of up to F/2 forward and F backward, t <= F/4) ZB-H1 lies up to 1 % below the schedule played out, interleaved
    within -3 % and +6.5 %, DualPipe within -5.5 % and +1.5 %.
    """
    schedule, p, m, v = pipeline
    f, b, w = stage
    t = stage_transfer_s
    backward_extra = first.backward_s + last.backward_s
    back = b + w
    if p <= 1.0:
        return m * (f + back + first.forward_s + last.forward_s + backward_extra), 0.0
    chunked = schedule == INTERLEAVED and v > 1.0
    forward = Along(f + first.forward_s + t, f + t, f + last.forward_s)
    if back + backward_extra <= 0.0:
        own = m * slowest(p, forward)
        total = one_way(p, m, forward)
        if chunked:
            own += m * (v - 1.0) * t
            total = interleaved_forward_time(pipeline, f, first.forward_s, last.forward_s, t)
        return max(total, own), max(total - own, 0.0)
    first_extra = first.forward_s + first.backward_s
    last_extra = last.forward_s + last.backward_s
    delayed = w if schedule == ZERO_BUBBLE_H1 else 0.0
    waited = back - delayed
    backward = Along(waited + first.backward_s, waited + t, waited + last.backward_s + t)
    both = Along(forward.first + backward.first, forward.middle + backward.middle, forward.last + backward.last)
    own = m * (slowest(p, both) + delayed)
    if schedule == GPIPE:
        total = one_way(p, m, forward) + one_way(p, m, backward)
    elif schedule == DUAL_PIPE:
        mean_extra = 0.5 * (first_extra + last_extra)
        own = m * slowest(p, Along(f + back + mean_extra + t, both.middle, 0.0))
        total = dual_pipe_time(p, m, stage, mean_extra, t)
    elif chunked:
        own += m * 2.0 * (v - 1.0) * t
        total = interleaved_time(pipeline, stage, first_extra, last_extra, t)
    else:
        total = one_f_one_b_time(p, m, forward, backward, delayed)
    return max(total, own), max(total - own, 0.0)


@compiled
def in_flight(pipeline: Pipeline, stage_index: float) -> float:
    """Most microbatches whose activations a stage (counted from 0) keeps at one time, in those of a full stage.

    Activations live until the last gradient that needs them. GPipe keeps all microbatches. 1F1B keeps p - i. ZB-H1
    keeps p on every stage, because late stages delay the gradients of weights (an upper bound where part of the
    activations goes before). Interleaved keeps one chunk more than it forwards to warm up, on the first stage
    p + (p - 1)/v microbatches (an upper bound if p does not divide m). DualPipe keeps p + 1.
    """
    schedule, p, m, v = pipeline
    i = stage_index
    if schedule == GPIPE or p <= 1.0:
        return m if schedule == GPIPE else 1.0
    if schedule == ZERO_BUBBLE_H1:
        return min(m, p)
    if schedule == DUAL_PIPE:
        return p + 1.0
    if schedule == INTERLEAVED and v > 1.0:
        warmup = 2.0 * (p - 1.0 - i) + (v - 1.0) * p
        return min(m, (warmup + 1.0) / v)
    return min(m, p - i)


@compiled
def parameter_copies(schedule: float) -> float:
    """Stages whose parameters a chip keeps: under DualPipe one for each direction."""
    return 2.0 if schedule == DUAL_PIPE else 1.0
