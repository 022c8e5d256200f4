# Everything a person or CI does here. "make" alone lists it.
GO   ?= go
TOOL := $(GO) tool -modfile=tools/go.mod
ARGS ?=

# One set of flags for every build: a second set would compile the NATS server a
# second time. (-race is such a second set, and worth it.)
.PHONY: help build demo test race chaos chaos-short bench lint fmt vuln vectors deploy-test mutants

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

build: ## the programs, into bin/
	@$(GO) build -o bin/ ./cmd/...

demo: ## the whole system in this terminal, on loopback; ARGS="--help" for more
	@echo "building (the first time takes 2–3 minutes on 2 cores) …"
	@$(GO) build -o bin/ ./cmd/dibs
	@bin/dibs demo $(ARGS)

test: ## the tests
	$(GO) test ./...

race: ## the tests with the race detector, as CI runs them
	$(GO) test -race -timeout 15m ./...

chaos: ## 1,000 calls while backends, bots and the broker are killed at random; DIBS_CHAOS_SEED=2 for another story
	DIBS_CHAOS=long $(GO) test -count=1 -v -timeout 1h -run Chaos ./sim/crash

chaos-short: ## the same with 60 calls, as every run of the tests has it
	$(GO) test -count=1 -v -run Chaos ./sim/crash

bench: ## the numbers we hold ourselves to, each as a ratio within one run
	$(GO) run ./bench $(ARGS)

lint: ## format, vet, modernizer and staticcheck; changes nothing
	@files=$$($(TOOL) gofumpt -l .) && test -z "$$files" || { echo "make fmt would change: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) fix -diff ./...
	$(TOOL) staticcheck ./...

fmt: ## format and modernize the code
	$(TOOL) gofumpt -w .
	$(GO) fix ./...

vuln: ## known vulnerabilities; not part of lint, as it needs the database on the network
	$(TOOL) govulncheck ./...

deploy-test: ## the manifests and alerts, in a module of its own; needs promtool
	cd deploy/test && DIBS_PROMTOOL=1 $(GO) test -count=1 .

mutants: ## wrong admissions that the tests must catch, one by one (6 minutes)
	$(GO) test ./admission -run '^TestMutants$$$$' -mutants -v -timeout 40m

vectors: ## the protocol vectors in Go and in Node
	$(GO) test -run Vectors ./wire
	cd examples/node && npm ci --no-audit --no-fund --loglevel=error && node --test
