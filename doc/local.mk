# SPDX-License-Identifier: BSD-2-Clause
# README and the programs that it and the manual speak of; the tests build and run them.
dist_doc_DATA = README.md
examplesdir = $(docdir)/examples
dist_examples_DATA = $(DOC_EXAMPLES)
