// GradientWorker, of actor_critic_learner.h: one thread's share of a minibatch, forwards and backwards.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/agent/recurrent.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/actor_critic_learner.h"
#include "parl/core/check.h"

namespace parl::internal {
namespace {

// A view when the unrolls lie side by side, else a copy.
Batch take(const Batch& batch, const std::vector<int64_t>& index) {
  bool adjacent = true;
  for (size_t i = 1; i < index.size(); ++i) adjacent = adjacent && index[i] == index[i - 1] + 1;
  if (adjacent) return batch.slice(index.front(), static_cast<int64_t>(index.size()));
  return batch.select(torch::tensor(index, torch::kLong).to(batch.obs.device()));
}

}  // namespace

std::vector<int64_t> part_of(const std::vector<int64_t>& list, int64_t part, int64_t parts) {
  const int64_t n = static_cast<int64_t>(list.size());
  return {list.begin() + n * part / parts, list.begin() + n * (part + 1) / parts};
}

GradientWorker::Seen GradientWorker::look(const Batch& piece, bool record) {
  Seen out;
  at::Tensor memory;  // after the truncated steps
  if (RecurrentModel* recurrent = model_.recurrent()) {
    const Sequence sequence = sequence_of(piece, piece.length() + 1, *recurrent, device_);
    if (record) {
      SequenceRecording recorded = recurrent->record_sequence(sequence);
      out.recording = std::move(recorded.recording);
      memory = std::move(recorded.kept);
    } else {
      SequenceOutput seen = recurrent->sequence(sequence);
      out.output = std::move(seen.output);
      memory = std::move(seen.kept);
    }
  } else if (record) {
    out.recording = model_.record(piece.obs.flatten(0, 1).to(device_));
  } else {
    out.output = model_.forward(piece.obs.flatten(0, 1).to(device_));
  }
  if (out.recording) out.output = out.recording->output();
  if (piece.final_index.defined() && piece.final_index.numel() > 0) {
    torch::NoGradGuard no_grad;
    const at::Tensor obs = piece.final_obs.to(device_);
    RecurrentModel* recurrent = model_.recurrent();
    out.final_value = recurrent ? recurrent->step(obs, memory).output.value : model_.forward(obs).value;
  }
  return out;
}

int64_t GradientWorker::pieces_of(int64_t count, int64_t rows) const {
  const int64_t best = config_.micro_batch > 0 ? config_.micro_batch : model_.preferred_rows();
  const int64_t limit = best == 0 ? std::max<int64_t>(count, 1) : std::max<int64_t>(1, best / rows);
  return (count + limit - 1) / limit;
}

GradientWorker::Piece GradientWorker::forward_piece(const Batch& piece, const PolicyLossOptions& options) {
  Seen seen = look(piece, true);
  Piece out;
  out.recording = std::move(seen.recording);
  out.loss = std::make_unique<PolicyLoss>(options, piece, seen.output.logits, seen.output.value, seen.final_value);
  return out;
}

void GradientWorker::backward_piece(Piece& piece, double scale) {
  PolicyLoss::Gradients gradients = piece.loss->gradients(scale);
  piece.recording->backward(gradients.logits.to(device_), gradients.value.to(device_));
  sums_ += piece.loss->sums();
}

void GradientWorker::forward(const Batch& batch, const std::vector<int64_t>& index, const PolicyLossOptions& options,
                             double scale, bool keep) {
  sums_ = {};
  kept_.clear();
  const int64_t pieces = pieces_of(static_cast<int64_t>(index.size()), batch.length() + 1);
  for (int64_t i = 0; i < pieces; ++i) {
    const std::vector<int64_t> unrolls = part_of(index, i, pieces);
    Piece piece = forward_piece(take(batch, unrolls), options);
    if (keep) {
      kept_.push_back(std::move(piece));
      sums_.steps += kept_.back().loss->sums().steps;
      sums_.advantage += kept_.back().loss->sums().advantage;
      sums_.advantage_squared += kept_.back().loss->sums().advantage_squared;
    } else {
      backward_piece(piece, scale);
    }
  }
}

void GradientWorker::find_targets(const Batch& batch, const std::vector<int64_t>& index,
                                  const PolicyLossOptions& options, StepTargets& targets) {
  torch::NoGradGuard no_grad;
  sums_ = {};
  const int64_t pieces = pieces_of(static_cast<int64_t>(index.size()), batch.length() + 1);
  for (int64_t i = 0; i < pieces; ++i) {
    const std::vector<int64_t> unrolls = part_of(index, i, pieces);
    const Batch piece = take(batch, unrolls);
    const Seen seen = look(piece, false);
    const PolicyLoss loss(options, piece, seen.output.logits, seen.output.value, seen.final_value);
    const int64_t at = unrolls.front() * batch.length();  // the unrolls of a worker lie side by side
    std::copy(loss.vs().begin(), loss.vs().end(), targets.vs.mutable_data_ptr<float>() + at);
    std::copy(loss.advantage().begin(), loss.advantage().end(), targets.advantage.mutable_data_ptr<float>() + at);
    sums_ += loss.sums();
  }
}

void GradientWorker::learn_steps(const Batch& batch, const StepTargets& targets, const std::vector<int64_t>& index,
                                 const PolicyLossOptions& options, double scale) {
  sums_ = {};
  const int64_t pieces = pieces_of(static_cast<int64_t>(index.size()), 1), length = batch.length();
  for (int64_t i = 0; i < pieces; ++i) {
    const at::Tensor steps = torch::tensor(part_of(index, i, pieces), torch::kLong);
    const at::Tensor rows = steps + steps.div(length, "floor");  // of obs [B * (T+1)]
    const auto pick = [](const at::Tensor& column, const at::Tensor& index) {
      return column.flatten(0, 1).index_select(0, index.to(column.device()));
    };
    Piece piece;
    piece.recording = model_.record(pick(batch.obs, rows).to(device_));
    const PolicyValue& output = piece.recording->output();
    piece.loss = std::make_unique<PolicyLoss>(
        options,
        PolicyLoss::Steps{pick(batch.action, steps).cpu(), pick(batch.behaviour_logits, steps).cpu(),
                          targets.vs.index_select(0, steps), targets.advantage.index_select(0, steps)},
        output.logits, output.value);
    backward_piece(piece, scale);
  }
}

void GradientWorker::learn_unrolls(const Batch& batch, const StepTargets& targets, const std::vector<int64_t>& index,
                                   const PolicyLossOptions& options, double scale) {
  sums_ = {};
  const int64_t length = batch.length(), pieces = pieces_of(static_cast<int64_t>(index.size()), length);
  for (int64_t i = 0; i < pieces; ++i) {
    const std::vector<int64_t> unrolls = part_of(index, i, pieces);
    const Batch part = take(batch, unrolls);
    const at::Tensor rows = torch::tensor(unrolls, torch::kLong);
    const auto targets_of = [&](const at::Tensor& column) {
      return column.view({-1, length}).index_select(0, rows).flatten();
    };
    Piece piece;
    if (RecurrentModel* recurrent = model_.recurrent()) {
      Sequence sequence = sequence_of(part, length, *recurrent, device_);
      sequence.keep = at::Tensor();
      piece.recording = recurrent->record_sequence(sequence).recording;
    } else {
      piece.recording = model_.record(part.obs.narrow(1, 0, length).flatten(0, 1).to(device_));
    }
    const PolicyValue& output = piece.recording->output();
    const auto flat = [](const at::Tensor& column) { return column.flatten(0, 1).cpu().contiguous(); };
    piece.loss = std::make_unique<PolicyLoss>(options,
                                              PolicyLoss::Steps{flat(part.action), flat(part.behaviour_logits),
                                                                targets_of(targets.vs), targets_of(targets.advantage)},
                                              output.logits, output.value);
    backward_piece(piece, scale);
  }
}

void GradientWorker::backward(double mean, double factor, double scale) {
  sums_ = {};
  for (Piece& piece : kept_) {
    piece.loss->normalize_advantages(mean, factor);
    backward_piece(piece, scale);
  }
  kept_.clear();
}

}  // namespace parl::internal
