# What the README and CI name. `make demo` and `make test` set up a fresh
# machine by themselves; everything they install is said aloud.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

GO      := ./scripts/go
BIN     := bin/holdfast
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Without C everywhere but under the race detector, and with the same flags for
# building, vetting and testing: what one compiles, the next finds in the cache.
export CGO_ENABLED := 0
# What is compiled does not depend on the folder, so a second clone compiles only what differs.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
BUILD   := $(GO) build -buildvcs=false -ldflags "$(LDFLAGS)"

# The packages where a data race would cost a run or double an effect. The model
# adapters share nothing, and compiling their SDKs once more takes minutes.
# What takes longest comes first, here and in FIRST, so that nothing long is left alone at the end.
RACE := ./services/runner ./services/trigger/... ./services/tools/... ./services/approvals/... ./internal/bus/... ./internal/pg/... \
        ./services/runner/inbox ./services/runner/postgres
# Tests of much data, which the race detector only makes five times slower: they run without it.
OFVOLUME := ./services/runner ./services/trigger
VOLUME := ^(TestCaseA03_(TooLargeBodies|LargeBodies|StartByReference)|TestHook_Limits|TestCaseC10_.*|TestWaiting_AThousandApprovalsCostNothing|TestFlow_AnEndCostsTheSameThroughout|TestGrown_IsAMap)$$
FIRST := ./test/e2e ./cmd/holdfast ./services/console/httpapi
# Two packages and four tests of each at a time, three and three under the race detector: more at once make them wait for each other. Vet has run before; nobody debugs these binaries.
TESTFLAGS ?= -p 2 $(COMMONFLAGS)
RACEFLAGS ?= -p 3 -race $(COMMONFLAGS) -parallel 3 -skip '$(VOLUME)'
VOLUMEFLAGS ?= -p 2 $(COMMONFLAGS) -run '$(VOLUME)'
COMMONFLAGS := -parallel 4 -vet=off -timeout 20m -ldflags=-w

SEEDS ?= 20

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## install what is missing: Go, PostgreSQL's server programs, a C compiler, Node.js, Chromium
	@./scripts/setup.sh test

.PHONY: setup-run
setup-run:
	@./scripts/setup.sh run

.PHONY: build
build: setup-run ## bin/holdfast
	$(BUILD) -o $(BIN) ./cmd/holdfast

.PHONY: demo
demo: build ## the competitor monitor with 30 shops under kills; fails when a promise is broken
	./$(BIN) demo $(DEMOFLAGS)

# The checker is checked: with the ledger's intent switched off it must report
# duplicates and end with 1.
.PHONY: demo-broken
demo-broken: setup-run ## the same with a broken ledger: it must report duplicates and fail
	$(BUILD) -tags holdfast_broken_ledger -o $(BIN)-broken ./cmd/holdfast
	./$(BIN)-broken demo $(DEMOFLAGS)

SIM_STEPS ?= 2000000
SIM_SEED ?= 1

.PHONY: sim
sim: setup-run ## the protocol simulated for SIM_STEPS=2000000 steps from SIM_SEED=1 on, with faults between any two steps; no server, about two minutes
	HOLDFAST_SIM_STEPS=$(SIM_STEPS) HOLDFAST_SIM_SEED=$(SIM_SEED) $(GO) test $(TESTFLAGS) -count=1 -v ./test/sim

.PHONY: chaos
chaos: build ## kill every process at every place the code names, break NATS, Postgres and the lines between; writes docs/durability.md, fails when a promise is broken
	./$(BIN) chaos --write docs/durability.md $(CHAOSFLAGS)

# The faults of runs and of effects that would cost a run or double an act.
CASES := ^TestCase(C01|C02|C04|C06|C07|C08|C11|C13|D01|D02|D03|D07)_
CASE_TIMES ?= 100

.PHONY: soak
soak: build sim ## the simulation, every case of a lost run or a doubled act CASE_TIMES=100 times, the demo with SEEDS=20 seeds in a row, the lab of fires with hundreds of kills, a flow of 1,000 runs under kills with a slow and a fast model, a stream and a NATS cluster of three for long, a run of 1,000 steps, 200 races of a yes and a cancel, and slow readers beside 1,000 watchers
	$(GO) test $(TESTFLAGS) -timeout 12h -count=$(CASE_TIMES) -run '$(CASES)' ./services/tools ./services/runner ./services/trigger ./internal/bus ./internal/pg
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run TestCaseB02_ExactlyOnceUnderKills ./services/trigger
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run TestFlow_UnderKills ./test/e2e
	HOLDFAST_LAB_LONG=1 HOLDFAST_LAB_THINKS=50ms $(GO) test $(TESTFLAGS) -count=1 -run TestFlow_UnderKills ./test/e2e
	HOLDFAST_LONG_STEPS=1000 $(GO) test $(TESTFLAGS) -count=1 -run 'TestLongRun_AStepCostsTheSameAtTheEnd|TestCaseC10|TestPoolRaise' ./services/runner
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run TestCaseC02_AStreamOfManyLeases ./services/runner
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run TestCaseC08_ServicesOnAClusterLoseItsLeaders ./test/e2e
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run TestCaseE04_ApproveAndCancel ./services/approvals
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run 'TestCaseG02|TestWatchers' ./services/console/httpapi
	HOLDFAST_LAB_LONG=1 $(GO) test $(TESTFLAGS) -count=1 -run 'TestBench$$' ./cmd/holdfast
	@for seed in $$(seq 1 $(SEEDS)); do ./$(BIN) demo --seed $$seed $(DEMOFLAGS) || { echo "seed $$seed failed; again with: $(BIN) demo --seed $$seed"; exit 1; }; done

FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: setup-run ## everything that reads outside input, FUZZTIME=30s each; what breaks one is kept in its testdata/fuzz and is a test from then on
	@grep -rlE '^func Fuzz' --include=*_test.go . | while read -r file; do \
	  for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' $$file); do \
	    echo "$$(dirname $$file) $$name"; \
	    $(GO) test -vet=off -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$(dirname $$file) || exit 1; \
	  done; done

BENCHFLAGS ?=
.PHONY: bench
bench: build ## how fast it is beside the machine's own limits, some minutes alone on the machine; fails when a floor of docs/performance.md is missed
	./$(BIN) bench --floors $(BENCHFLAGS)

BIG_RUNS ?= 100000
BIG_ROWS ?= 5000000

.PHONY: big
big: setup-run ## a database with BIG_RUNS=100000 runs and BIG_ROWS=5000000 rows of journals (5 GB in TMPDIR, gone afterwards): every page of the console within 200 ms
	HOLDFAST_BIG_RUNS=$(BIG_RUNS) HOLDFAST_BIG_ROWS=$(BIG_ROWS) $(GO) test -vet=off -ldflags=-w -timeout 30m -count=1 -v -run TestPages_OnALargeDatabase ./cmd/holdfast

.PHONY: live
live: ## the model adapters against the real services whose keys are set (see docs/models.md)
	$(GO) test -count=1 -tags live -run TestLive -v ./services/runner/model

.PHONY: test
test: setup lint ## everything a developer needs to trust a change
	@packages=$$($(GO) list ./... | grep -vxFf <($(GO) list $(RACE))) && \
	PATH="$$(dirname "$$($(GO) env GOROOT)/bin/go"):$$PATH" \
	$(GO) run ./scripts/testsum $(TESTFLAGS) -- $(FIRST) $$packages -- $(RACEFLAGS) -- $(RACE) -- $(VOLUMEFLAGS) -- $(OFVOLUME)

.PHONY: lint
lint: setup-run ## gofmt and go vet
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(ls -d cmd internal pkg scripts services examples test web 2>/dev/null)); \
	if [ -n "$$unformatted" ]; then echo "gofmt these:"; echo "$$unformatted"; exit 1; fi
	@for script in scripts/go scripts/setup.sh; do sh -n $$script; done; bash -n .ci/run
	$(GO) vet ./...
	$(GO) vet -tags holdfast_broken_ledger ./services/tools # the one package that the tag changes

.PHONY: check-broken
check-broken: ## that the broken demo reports duplicates and fails
	@log=$$(mktemp); trap 'rm -rf $$log $$(sed -n "s/^data and logs are in //p" $$log)' EXIT; \
	echo "the demo with a broken ledger, which must fail:"; \
	if $(MAKE) demo-broken >$$log 2>&1; then cat $$log; echo "the broken ledger went unnoticed"; exit 1; fi; \
	grep -m 1 '^FAILED  duplicate-action rate' $$log || { cat $$log; echo "it failed for another reason than duplicates"; exit 1; }

.PHONY: check-deploy
check-deploy: setup-run ## deploy/k8s and deploy/helm by the code of Kubernetes and Helm themselves: an API server would accept every object; compiles for some minutes the first time
	cd test/kube && ../../$(GO) vet . && ../../$(GO) test -count=1 -vet=off -ldflags=-w .

PICTURES ?= $(CURDIR)/bin/pictures
.PHONY: browser
browser: setup ## the console in a real browser, everything; pictures of each page go to bin/pictures
	@rm -rf $(PICTURES); mkdir -p $(PICTURES)
	HOLDFAST_BROWSER=full $(GO) test $(TESTFLAGS) -count=1 -artifacts -outputdir $(PICTURES) -run 'TestLive|TestTab|TestServices/.*browser' ./internal/browsertest ./web ./test/e2e
	@echo "$$(find $(PICTURES) -name '*.png' | wc -l) pictures are in $(PICTURES)"

.PHONY: check-all
check-all: test demo check-broken check-deploy soak browser ## all of that, the soak and the whole set in a browser: takes about half an hour

.PHONY: gen
gen: setup-run ## rewrite generated files
	$(GO) generate ./...

.PHONY: clean
clean: ## remove what was built; data in .holdfast stays
	rm -rf bin dist
