# Turnout. `make` lists what there is.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
CACHE    := .cache
BIN      := $(CACHE)/bin
CHDB     := deploy/local/chdb
CHDB_LIB := $(CHDB)/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -X turnout/internal/lifecycle.Version=$(VERSION)
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help deps build dev demo test race lint fuzz bench bench-pipeline bench-memory bench-micro measure kafka test-kafka sdk chaos model soak clients agents compose-check ci clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build the one binary, bin/turnout
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/turnout .

deps: $(CHDB_LIB) ## fetch the embedded ClickHouse (once; not needed where TURNOUT_CHDB_LIB is set)

$(CHDB_LIB): $(CHDB)/package-lock.json
	@if [ -n "$${TURNOUT_CHDB_LIB:-}" ]; then echo "using $$TURNOUT_CHDB_LIB"; else \
	  cd $(CHDB) && npm ci --ignore-scripts --no-audit --no-fund --silent && \
	  { test -f node_modules/@chdb/lib-linux-x64-gnu/libchdb.so || { echo "the embedded ClickHouse exists for linux x64 (glibc) only: point clickhouse.addr at a server, or use docker compose up" >&2; exit 1; }; } && \
	  sha256sum -c --quiet SHA256SUMS && touch node_modules/@chdb/lib-linux-x64-gnu/libchdb.so; fi

dev: deps build ## start everything on this machine: engines, simulated providers, gateway, processor, analytics
	bin/turnout dev

demo: deps build ## watch traffic leave a failing provider and come back (90 s, unattended, free ports)
	bin/turnout demo

test: deps build ## every test that needs no network and no Docker
	$(GO) test $(RACE) -timeout 25m ./...

race: ## the same under the race detector
	$(MAKE) test RACE=-race

lint: $(BIN)/golangci-lint ## golangci-lint with .golangci.yml
	$(BIN)/golangci-lint run --build-tags sdk,chaos,measure,agents --timeout 15m ./...

$(BIN)/golangci-lint:
	GOBIN=$(abspath $(BIN)) $(GO) install $(GOLANGCI)

FUZZTIME ?= 10s
SOAKTIME ?= 5m
fuzz: ## every fuzz target for FUZZTIME (10s, or 10000x for a number of inputs)
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg; \
	  done; done

bench: deps build ## Turnout beside a plain reverse proxy and a direct call, and the processor, in one run
	$(GO) run ./deploy/bench $(BENCHFLAGS)
	$(GO) test -run "^$$" -bench Pipeline -benchtime 1x -timeout 15m ./processor

bench-pipeline: deps ## the processor beside ClickHouse's own Kafka engine: speed, CPU, and what kill -9 does to each
	$(GO) run ./deploy/bench/pipeline $(BENCHFLAGS)

bench-memory: deps ## the processor's memory over ten million events
	$(GO) run ./deploy/bench/pipeline -memory -events 10000000

measure: deps ## how fresh rows are, how soon other nodes leave a failing provider, ten minutes without Kafka at 500 requests/s (TURNOUT_MEASURE_AWAY)
	$(GO) test -tags measure -run TestMeasure -v -count=1 -timeout 60m ./deploy/e2e

bench-micro: ## Go benchmarks of the cores
	$(GO) test -run '^$$' -bench . -benchmem ./gateway/routing ./gateway/pricing ./internal/jsonx ./schemas/attempt ./gateway/internal/emit

kafka: ## Apache Kafka (one KRaft broker, from Maven Central) on a free port, until Ctrl-C
	$(GO) run ./deploy/kafka/run

test-kafka: deps build ## the pipeline tests against Apache Kafka
	TURNOUT_TEST_KAFKA=apache $(GO) test -timeout 15m ./internal/kafkax/... ./gateway/internal/emit/... ./processor/... ./deploy/e2e/... ./deploy/chaos/...

sdk: deps ## 10,000 requests through the OpenAI SDKs, each ledger entry matched to its one row; outages of a minute; what SDKs do with each failure
	cd deploy/e2e/sdk && npm ci --ignore-scripts --no-audit --no-fund --silent
	$(GO) test -timeout 15m -tags sdk ./deploy/e2e/...

chaos: deps ## the crash matrix at length, at least 200 kills; TURNOUT_TEST_KAFKA=apache: on Apache Kafka
	$(GO) test -tags chaos -run TestChaos -v -count=1 -timeout 60m ./deploy/chaos

model: ## the rules of the processor against a model: 100,000 runs of crashes, duplicates and zombies (15 s)
	TURNOUT_MODEL_RUNS=100000 $(GO) test -count=1 -run TestModel ./processor/internal/partition

soak: ## 500 streams through hostile providers and clients for SOAKTIME (5m): what is left afterwards
	TURNOUT_SOAK_TIME=$(SOAKTIME) $(GO) test -tags soak -run TestSoak -v -count=1 -timeout 0 ./deploy/soak

clients: ## the clients people use, from npm, on every surface against scripted providers of every protocol
	cd deploy/clients && npm ci --ignore-scripts --no-audit --no-fund --silent
	$(GO) test -timeout 5m -tags clients -run 'TestClients$$' -v ./gateway

agents: deps build ## opencode, codex and claude-code from npm each finish a scripted task over several upstream protocols
	cd deploy/agents && npm ci --ignore-scripts --no-audit --no-fund --silent
	$(GO) test -timeout 15m -count=1 -tags agents -v ./deploy/agents

compose-check: ## docker-compose.yml parses, and every command and setting in it exists
	$(GO) test -run TestCompose -v .

ci: ## what CI runs
	bash .ci/run

clean: ## remove what was built and fetched, and the data of `make dev`
	rm -rf bin $(CACHE) .turnout $(CHDB)/node_modules
