# install() for everything, and a package that find_package(parl COMPONENTS remote|env|env_atari|env_mujoco|train) understands.
#
# Rooms without torch, the Atari room, the MuJoCo room and the learning rooms are export sets of their own: who asks for
# remote objects alone needs neither libtorch nor the ALE nor MuJoCo.
include(CMakePackageConfigHelpers)

set(PARL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/parl)
get_property(rooms GLOBAL PROPERTY PARL_ROOMS)
get_property(torch_rooms GLOBAL PROPERTY PARL_TORCH_ROOMS)
set(PARL_HAS_ATARI OFF)
set(PARL_HAS_MUJOCO OFF)
set(PARL_HAS_TORCH OFF)
set(sets base)
foreach(room IN LISTS rooms)
  if(room IN_LIST torch_rooms)
    set(set learn)
    set(PARL_HAS_TORCH ON)
  elseif(room STREQUAL "parl_env_atari")
    set(set atari)
    set(PARL_HAS_ATARI ON)
  elseif(room STREQUAL "parl_env_mujoco")
    set(set mujoco)
    set(PARL_HAS_MUJOCO ON)
  else()
    set(set base)
  endif()
  list(APPEND sets ${set})
  install(TARGETS ${room} EXPORT parl-${set} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
list(REMOVE_DUPLICATES sets)
foreach(set IN LISTS sets)
  install(EXPORT parl-${set} FILE parl-${set}.cmake NAMESPACE parl:: DESTINATION ${PARL_PACKAGE_DIR})
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/parl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN testdata EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The ALE that this build linked: consumers link it too, unless they name their own with PARL_ALE_DIR.
set(PARL_ALE_USED "")
if(TARGET ALE::ale)
  get_target_property(ale_library ALE::ale IMPORTED_LOCATION)
  cmake_path(GET ale_library PARENT_PATH ale_folder)
  cmake_path(GET ale_folder PARENT_PATH PARL_ALE_USED)
endif()
# The same of MuJoCo and PARL_MUJOCO_DIR.
set(PARL_MUJOCO_USED "")
if(TARGET MuJoCo::mujoco)
  get_target_property(mujoco_headers MuJoCo::mujoco INTERFACE_INCLUDE_DIRECTORIES)
  cmake_path(GET mujoco_headers PARENT_PATH PARL_MUJOCO_USED)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/parlConfig.cmake.in ${PROJECT_BINARY_DIR}/parlConfig.cmake
  INSTALL_DESTINATION ${PARL_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/parlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/parlConfig.cmake ${PROJECT_BINARY_DIR}/parlConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindALE.cmake ${PROJECT_SOURCE_DIR}/cmake/FindMuJoCo.cmake DESTINATION ${PARL_PACKAGE_DIR})
