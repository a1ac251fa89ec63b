# SPDX-License-Identifier: BSD-2-Clause
# Behind a wrapper of the providers that injects faults.
if ENABLE_MX
check_PROGRAMS += %D%/stress_procs_faulty
if ENABLE_MCAPI
check_PROGRAMS += %D%/stress_mcapi_faulty
endif
endif
tests_stress_stress_procs_faulty_SOURCES = %D%/stress_procs.c tests/fault/faulty.c
tests_stress_stress_mcapi_faulty_SOURCES = %D%/stress_mcapi.c tests/fault/faulty.c
