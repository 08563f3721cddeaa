# Two commands do everything on a fresh machine: `make demo` and `make test`.
.PHONY: demo test fmt help

help:
	@echo "make demo   build, run the main job on an embedded default, print what it did"
	@echo "make test   everything: format, lints, unit, property, black-box and client tests"

demo:
	@scripts/setup.sh build
	cargo build --profile demo -p frostline
	@scripts/demo.sh

test:
	@scripts/setup.sh test
	@scripts/test.sh

fmt:
	cargo fmt --all
