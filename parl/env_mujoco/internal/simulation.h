// Simulation: MuJoCo's model and data of one environment, and MuJoCo's errors as exceptions.
// Owns both; one thread at a time. Every error is a parl::Error; after one only reset() may follow.
#pragma once

#include <span>
#include <string>
#include <vector>

struct mjModel_;
struct mjData_;

namespace parl::internal {

class Simulation {
 public:
  explicit Simulation(std::string file);  // an MJCF file
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  const mjModel_* model() const { return model_; }
  mjModel_* model() { return model_; }
  const mjData_* data() const { return data_; }
  mjData_* data() { return data_; }
  const std::string& file() const { return file_; }
  double timestep() const;

  void clear();                                               // mj_resetData
  void start();                                               // mj_forward, after qpos and qvel were set
  void step(std::span<const float> control, int frame_skip);  // physics of one agent step

  int body(const std::string& name) const;  // its number; throws when the model has none of that name
  // Throws unless the model has at least so much of everything (what a task reads by number).
  void need(int positions, int velocities, int controls) const;

  // The integration state, warm start included.
  size_t state_size() const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);

 private:
  std::string file_;
  mjModel_* model_ = nullptr;
  mjData_* data_ = nullptr;
};

}  // namespace parl::internal
