# Finds the Arcade Learning Environment and makes the imported target ALE::ale.
#   PARL_ALE_DIR  (cache variable, else environment) an install: lib/libale.a, include/ale/ale_interface.hpp, maybe roms/
#   otherwise     what scripts/build_ale.sh left in PARL_DEPS (environment; default ${XDG_CACHE_HOME:-~/.cache}/parl)
# Sets ALE_FOUND, ALE_DIR_FOUND (the install) and ALE_ROMS (its ROM directory, maybe empty).

set(PARL_ALE_DIR "$ENV{PARL_ALE_DIR}" CACHE PATH "An install of the Arcade Learning Environment; empty: the one of 'make setup'")
set(_ale_places "${PARL_ALE_DIR}")
if(NOT PARL_ALE_DIR)
  set(_ale_deps "$ENV{PARL_DEPS}")
  if(NOT _ale_deps AND DEFINED ENV{XDG_CACHE_HOME})
    set(_ale_deps "$ENV{XDG_CACHE_HOME}/parl")
  elseif(NOT _ale_deps)
    set(_ale_deps "$ENV{HOME}/.cache/parl")
  endif()
  set(_ale_cpu generic)
  if(PARL_NATIVE)
    set(_ale_cpu native)
  endif()
  set(_ale_places "${_ale_deps}/ale-0.12.1-pgo-${_ale_cpu}" "${_ale_deps}/ale-0.12.1-plain-${_ale_cpu}" "${_ale_deps}/ale")
endif()

set(ALE_DIR_FOUND "")
foreach(_ale_place IN LISTS _ale_places)
  find_library(_ale_library NAMES ale PATHS "${_ale_place}" PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}" NO_DEFAULT_PATH NO_CACHE)
  if(_ale_library AND EXISTS "${_ale_place}/include/ale/ale_interface.hpp")
    set(ALE_DIR_FOUND "${_ale_place}")
    break()
  endif()
  unset(_ale_library)
endforeach()

include(FindPackageHandleStandardArgs)
string(JOIN ", " _ale_searched ${_ale_places})
find_package_handle_standard_args(ALE REQUIRED_VARS ALE_DIR_FOUND
  REASON_FAILURE_MESSAGE "The Arcade Learning Environment was not found (searched: ${_ale_searched}). Run 'make setup', or give -DPARL_ALE_DIR=<install>, or -DPARL_WITH_ATARI=OFF to build without Atari")

if(ALE_FOUND AND NOT TARGET ALE::ale)
  find_package(ZLIB REQUIRED)
  find_package(Threads REQUIRED)
  add_library(ALE::ale UNKNOWN IMPORTED GLOBAL)
  set_target_properties(ALE::ale PROPERTIES IMPORTED_LOCATION "${_ale_library}"
    INTERFACE_INCLUDE_DIRECTORIES "${ALE_DIR_FOUND}/include;${ALE_DIR_FOUND}/include/ale"
    INTERFACE_LINK_LIBRARIES "ZLIB::ZLIB;Threads::Threads")
  set(ALE_ROMS "")
  if(EXISTS "${ALE_DIR_FOUND}/roms/pong.bin")
    file(REAL_PATH "${ALE_DIR_FOUND}/roms" ALE_ROMS)
  endif()
endif()
