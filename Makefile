# Skylark. `make run` starts a whole system, `make test` checks it.
# giouring links only with -checklinkname=0; it stands behind the tag iouring, so plain `go build ./...` works too.

GO      ?= go
TAGS    ?= iouring
LDFLAGS ?= -s -w -checklinkname=0
GOFLAGS_ALL = -tags '$(TAGS)' -ldflags '$(LDFLAGS)'
PKGS    ?= ./...
DATA    ?= data
FUZZTIME ?= 10s
# faults of `make failover`, and where they come from
ROUNDS  ?= 20
SEED    ?= 1
# the event loops of the interop scenarios: auto, io_uring, epoll or std
REACTOR ?= auto
export REACTOR
# of `make sim`: how many seeds; make sim SEED=n runs one again with a trace
SEEDS   ?= 2000
OUT     ?= bench/results/latest
SRC     := $(shell find . -name '*.go' -not -path './test/interop/.work/*' 2>/dev/null) go.mod go.sum

.PHONY: build run test race fuzz sim interop interop-short failover failover-short failover-kills bench pgo lint vet-cross clean

build: bin/skylark

bin/skylark: $(SRC)
	CGO_ENABLED=0 $(GO) build -trimpath $(GOFLAGS_ALL) -o $@ ./cmd/skylark

run: bin/skylark
	bin/skylark standalone --data '$(DATA)'

test:
	$(GO) test $(GOFLAGS_ALL) $(PKGS)

race:
	$(GO) test -race -ldflags '-checklinkname=0' -tags '$(TAGS)' $(PKGS)

fuzz:
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' ./scripts/fuzz

# A whole group in controller mode with faults from a seed, on one goroutine: see internal/sim.
sim:
ifneq ($(origin SEED),command line)
	$(GO) test ./internal/sim -count=1 -timeout 60m -run 'TestSeeds|TestScenario' -seeds $(SEEDS)
else
	$(GO) test ./internal/sim -count=1 -v -run TestSeeds -seed $(SEED)
endif

interop: bin/skylark
	SKYLARK='$(CURDIR)/bin/skylark' ./test/interop/run
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 20m -v ./test/handover
	$(GO) test -tags interop -count=1 -timeout 20m -v ./test/ha
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 20m -v ./test/controller
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 20m -v ./test/failover -rounds 4

# Processes in network namespaces that are killed, stopped, cut off, slowed down and run out of disk, under load. Root and
# iproute2; about 40 s a round.
failover: bin/skylark
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 60m -v ./test/failover \
		-rounds $(ROUNDS) -seed $(SEED)

# One fault, and the network itself; about a minute.
failover-short: bin/skylark
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 10m -v -run 'TestNetwork|TestRounds' \
		./test/failover -rounds 1 -seed $(SEED)

# The time of failover of our brokers and controllers beside that of Java's; the table is in bin/failover-kills.md.
failover-kills: bin/skylark
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 60m -v -run 'TestKills' ./test/failover \
		-kills $(ROUNDS) -out '$(CURDIR)/bin/failover-kills.md'

# without the pairs and controllers of test/ha and test/controller, 12 minutes of Java brokers
interop-short: bin/skylark
	SKYLARK='$(CURDIR)/bin/skylark' ./test/interop/run -short
	SKYLARK='$(CURDIR)/bin/skylark' $(GO) test -tags interop -count=1 -timeout 10m -short -v ./test/handover

# Every stage alone, then a short suite against the built broker; the report is in OUT. BENCHFLAGS are those of
# `skylark bench suite`, TARGETS further brokers to compare with, as its --targets has them.
bench: bin/skylark
	SKYLARK='$(CURDIR)/bin/skylark' GO='$(GO)' TAGS='$(TAGS)' LDFLAGS='$(LDFLAGS)' OUT='$(OUT)' TARGETS='$(TARGETS)' \
		./scripts/bench $(BENCHFLAGS)

# Makes cmd/skylark/default.pgo anew from a mixed load and compares the build with it and the one without.
pgo:
	GO='$(GO)' TAGS='$(TAGS)' LDFLAGS='$(LDFLAGS)' ./scripts/pgo

lint: vet-cross
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v /testdata/)); [ -z "$$out" ] || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }
	$(GO) vet -tags '$(TAGS)' ./...
	$(GO) vet -race -tags '$(TAGS)' ./... # files for the race detector build too
	$(GO) tool staticcheck -tags '$(TAGS)' ./...
	$(GO) test ./internal/lint

vet-cross:
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...

clean:
	rm -rf bin
