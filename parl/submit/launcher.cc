#include "parl/submit/launcher.h"

#include "parl/core/check.h"
#include "parl/submit/options.h"

namespace parl::submit {

std::unique_ptr<Launcher> make_launcher(SubmitOptions& options) {
  const bool has_hosts = !options.hosts.empty() || !options.host_file.empty();
  PARL_CHECK(options.on == Site::kSsh || !has_hosts, "--hosts and --host-file belong to --on ssh");
  PARL_CHECK(options.on == Site::kK8s || (options.image.empty() && options.k8s_namespace.empty()),
             "--image and --k8s-namespace belong to --on k8s");
  PARL_CHECK(options.on == Site::kRay || (options.ray_address.empty() && options.ray_python.empty()),
             "--ray-address and --ray-python belong to --on ray");
  switch (options.on) {
    case Site::kSsh:
      return make_ssh_launcher(options);
    case Site::kSlurm:
      return make_slurm_launcher(options);
    case Site::kK8s:
      return make_k8s_launcher(options);
    case Site::kRay:
      return make_ray_launcher(options);
    case Site::kNone:
      break;
  }
  raise("where shall the workers run? --on ssh|slurm|k8s|ray");
}

}  // namespace parl::submit
