# SPDX-License-Identifier: BSD-2-Clause
# Linked in front of the library, faulty.c wraps its providers.
tests_fault_fault_inject_SOURCES = %D%/fault_inject.c %D%/faulty.c %D%/faulty.h
