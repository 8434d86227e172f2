# Finds MuJoCo's C library and makes the imported target MuJoCo::mujoco.
#   PARL_MUJOCO_DIR     (cache variable, else environment, else MUJOCO_DIR) an unpacked release, or the folder of the Python
#                       package: include/mujoco/mujoco.h, and libmujoco.so[.VERSION] in it or in its lib/
#   PARL_MUJOCO_ASSETS  (cache variable, else environment) the models: gymnasium/envs/mujoco/assets of an installed gymnasium
#   otherwise           what scripts/fetch_mujoco.sh left in PARL_DEPS (environment; default ${XDG_CACHE_HOME:-~/.cache}/parl)
# Sets MuJoCo_FOUND, MuJoCo_DIR_FOUND and MuJoCo_ASSETS (the folder with the models, maybe empty).

set(_muj_named "$ENV{PARL_MUJOCO_DIR}")
if(NOT _muj_named)
  set(_muj_named "$ENV{MUJOCO_DIR}")
endif()
set(PARL_MUJOCO_DIR "${_muj_named}" CACHE PATH "An install of MuJoCo; empty: the one of 'make setup'")
set(PARL_MUJOCO_ASSETS "$ENV{PARL_MUJOCO_ASSETS}" CACHE PATH "Gymnasium's MuJoCo models; empty: those of 'make setup'")
set(_muj_deps "$ENV{PARL_DEPS}")
if(NOT _muj_deps AND DEFINED ENV{XDG_CACHE_HOME})
  set(_muj_deps "$ENV{XDG_CACHE_HOME}/parl")
elseif(NOT _muj_deps)
  set(_muj_deps "$ENV{HOME}/.cache/parl")
endif()
set(_muj_place "${PARL_MUJOCO_DIR}")
if(NOT _muj_place)
  set(_muj_place "${_muj_deps}/mujoco")
endif()

set(MuJoCo_DIR_FOUND "")
set(_muj_library "")
file(GLOB _muj_libraries "${_muj_place}/lib/libmujoco.so*" "${_muj_place}/libmujoco.so*")
if(_muj_libraries AND EXISTS "${_muj_place}/include/mujoco/mujoco.h")
  list(GET _muj_libraries 0 _muj_library)
  set(MuJoCo_DIR_FOUND "${_muj_place}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MuJoCo REQUIRED_VARS MuJoCo_DIR_FOUND
  REASON_FAILURE_MESSAGE "MuJoCo was not found in ${_muj_place}. Run 'make setup', or give -DPARL_MUJOCO_DIR=<install>, or -DPARL_WITH_MUJOCO=OFF to build without")

if(MuJoCo_FOUND)
  set(MuJoCo_ASSETS "${PARL_MUJOCO_ASSETS}")
  if(NOT MuJoCo_ASSETS AND EXISTS "${_muj_deps}/mujoco/assets/ant.xml")
    file(REAL_PATH "${_muj_deps}/mujoco/assets" MuJoCo_ASSETS)
  endif()
  if(NOT TARGET MuJoCo::mujoco)
    file(REAL_PATH "${_muj_library}" _muj_library)
    add_library(MuJoCo::mujoco SHARED IMPORTED GLOBAL)
    set_target_properties(MuJoCo::mujoco PROPERTIES IMPORTED_LOCATION "${_muj_library}"
      INTERFACE_INCLUDE_DIRECTORIES "${MuJoCo_DIR_FOUND}/include")
  endif()
endif()
