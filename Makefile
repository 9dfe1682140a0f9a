# Heighliner: "make help" lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CONTROLLER_GEN := go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.22.0
GOBUILD := CGO_ENABLED=0 go build -trimpath

include hack/localcluster/cluster.mk

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Demos and tests

.PHONY: demo
demo: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the main demo on the local cluster; exits non-zero on failure
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: demo-analysis
demo-analysis: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the analysis demo: good, failing, slow, and idle canaries, measured with Prometheus; exits non-zero on failure
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -story analysis -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: demo-previews
demo-previews: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the pull request previews demo, with a simulated GitHub; exits non-zero on failure
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -story previews -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: demo-traffic
demo-traffic: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the traffic demo: a canary on several domains, on the canary's own domain, and over TCP; exits non-zero on failure
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -story traffic -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: demo-jobs
demo-jobs: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the Jobs demo: a migration, a smoke test, and a cleanup during a rollout; exits non-zero on failure
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -story jobs -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: demo-workers
demo-workers: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the workers demo: a canary among workers that take jobs from a queue; exits non-zero on failure
	@$(LOCALCLUSTER) packages redis-server
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -story workers -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: demo-all
demo-all: demo demo-analysis demo-previews demo-traffic demo-jobs demo-workers ## Run all demos

# Packages that "make race" omits, because the race detector cannot find races in them, and makes random histories ten times slower.
# They have neither goroutines nor variables that goroutines of other packages share. test/layout checks this.
PURE := apis/v1alpha1 internal/release internal/version internal/preview internal/allowedhosts internal/frozen internal/certs internal/window internal/view internal/view/text controllers/microservice/resources controllers/versionedmicroservice/resources controllers/networkpolicy/resources controllers/networkpolicy/traffic controllers/networkpolicy/providers/apisix controllers/networkpolicy/providers/certmanager controllers/networkpolicy/providers/gateway controllers/networkpolicy/providers/ingress controllers/networkpolicy/providertest internal/freeze hack/chartgen hack/crdgen hack/dashboards hack/picture hack/release test/e2e
# "make race" also omits the tests of documents, schemas, folders, and test servers, which do not run product code, and
# test/hostile, whose memory limit is higher with the race detector.
PLAIN := test/docs test/words test/layout test/apiserver test/apiserver/policy test/apiserver/schema test/hostile
# The slowest packages start first, so that none of them is the only one running at the end.
SLOW := cmd/heighliner controllers/networkpolicy controllers/microservice controllers/githubrepository test/apiserver/policy test/apiserver/schema controllers/imagepolicy controllers/versionedmicroservice controllers/feedback
space := $(subst ,, )

# Debian packages whose programs tests start.
TESTPACKAGES := prometheus promtool docker-registry tmux

# Run one package more than there are processors, because tests wait for API servers. Omit vet, because make lint runs it. Compile
# tests with the same flags as $(GOBUILD) and tests that run the go command, so that everything is compiled only once.
TESTFLAGS := -trimpath -shuffle=on -vet=off -timeout 30m -parallel 4 -p $(shell echo $$(($$(nproc) + 1)))

# $(call run_tests,COMMAND,FOLDERS) tests the slowest packages and then the others, except for the packages in FOLDERS.
# Compilers, API servers, and tests run garbage collection less often, because CPU time is scarcer than memory.
define run_tests
	@echo "building or finding the API server's binaries (this takes about five minutes the first time)"
	@assets=$$($(LOCALCLUSTER) assets); distribution=$$($(LOCALCLUSTER) programs distribution); \
		export KUBEBUILDER_ASSETS="$$assets" TEST_DISTRIBUTION="$$distribution" GOGC=400; \
		$(1) $(TESTFLAGS) $(addprefix ./,$(filter-out $(2),$(SLOW))) $$(go list ./... | grep -vE '/($(subst $(space),|,$(strip $(SLOW) $(2))))$$')
endef

.PHONY: test
test: $(LOCALCLUSTER) ## Run all tests that do not need the local cluster, with a real API server
	@$(LOCALCLUSTER) packages $(TESTPACKAGES)
	@# Informers panic if anything changes an object in a cache. "make race" does not set this variable, because the cache then contains packed objects.
	$(call run_tests,CGO_ENABLED=0 KUBE_CACHE_MUTATION_DETECTOR=true go test)
	@cd hack/sampleapp && CGO_ENABLED=0 go test -trimpath -shuffle=on ./...
	@cd hack/gitops && CGO_ENABLED=0 go test -trimpath -shuffle=on ./...
	@cd hack/localcluster && CGO_ENABLED=0 go test -trimpath -shuffle=on ./...

.PHONY: race
race: $(LOCALCLUSTER) ## Run the same tests with the race detector, except for packages in which it cannot find races
	@$(LOCALCLUSTER) packages $(TESTPACKAGES) gcc
	$(call run_tests,go test -race,$(PURE) $(PLAIN))
	@cd hack/sampleapp && go test -race -shuffle=on ./...
	@cd hack/localcluster && go test -race -shuffle=on ./...

.PHONY: test-registries
test-registries: $(LOCALCLUSTER) ## Test reading images from CNCF Distribution 2.8 and 3.1, and from Gitea; the first run builds Gitea, which takes ten minutes
	@$(LOCALCLUSTER) packages docker-registry gcc git
	@assets=$$($(LOCALCLUSTER) assets) && distribution=$$($(LOCALCLUSTER) programs distribution) && gitea=$$($(LOCALCLUSTER) programs gitea) && \
		KUBEBUILDER_ASSETS="$$assets" TEST_DISTRIBUTION="$$distribution" TEST_GITEA="$$gitea" \
		go test -count=1 -timeout 30m -v -run 'TestProducts|TestPoliciesOfProducts' ./internal/registry ./controllers/imagepolicy

.PHONY: test-versions
test-versions: $(LOCALCLUSTER) ## Run the tests that need an API server, on Kubernetes VERSIONS="1.33 1.34 1.36 1.37"; PKG=./controllers/... selects packages; each version is built once, which takes ten minutes
	@LOCALCLUSTER="$(LOCALCLUSTER)" hack/test-versions.sh "$(or $(VERSIONS),1.33 1.34 1.36 1.37)" $(PKG)

.PHONY: test-board
test-board: build $(LOCALCLUSTER) ## Test the board in Debian's Chromium, with logins through a real OpenID provider; AXE=axe.min.js checks accessibility, PICTURES=docs/images writes pictures
	@$(LOCALCLUSTER) packages chromium
	@assets=$$($(LOCALCLUSTER) assets); cd hack/boardtest && KUBEBUILDER_ASSETS="$$assets" CGO_ENABLED=0 go test -trimpath -vet=off -count=1 -v . -run TestBoard $(if $(AXE),-axe "$(abspath $(AXE))") $(if $(PICTURES),-pictures "$(abspath $(PICTURES))")

.PHONY: test-board-node
test-board-node: cluster-up local-install bin/sampleapp ## Test the board on the local cluster in Chromium, behind the gateway, with a service
	@$(LOCALCLUSTER) packages chromium
	@export KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) KUBECTL="$$($(LOCALCLUSTER) assets)/kubectl"; cd hack/boardtest && CGO_ENABLED=0 go test -trimpath -vet=off -count=1 -v . -run TestNode -node

##@ Build

.PHONY: build
build: ## Build the manager, bin/heighliner, as a static binary, and the files that the Dockerfile copies; the hlnr and localcluster targets build the other commands
	@echo "building the manager (this takes minutes the first time)"
	@$(GOBUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/heighliner ./cmd/heighliner
	@cp /etc/ssl/certs/ca-certificates.crt bin/ 2>/dev/null || { echo "no /etc/ssl/certs/ca-certificates.crt: install the package ca-certificates" >&2; exit 1; }

.PHONY: hlnr bin/hlnr
hlnr: bin/hlnr ## Build bin/hlnr, the command-line tool
bin/hlnr:
	@echo "building hlnr (this takes minutes the first time)"
	@$(GOBUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o $@ ./cmd/hlnr

.PHONY: image-test
image-test: build ## Build the Dockerfile with buildah, and check the image (Debian, root)
	@hack/image-test.sh

.PHONY: bin/demo bin/sampleapp
bin/demo:
	@echo "building the demo (this takes about a minute longer the first time)"
	@$(GOBUILD) -o $@ ./hack/demo
bin/sampleapp:
	@cd hack/sampleapp && $(GOBUILD) -ldflags "-s -w" -o $(CURDIR)/$@ .

.PHONY: generate
generate: ## Generate deep copies, CRDs, the manager's role, and their copies in the chart
	@$(CONTROLLER_GEN) object paths=./apis/...
	@$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./apis/... output:crd:dir=config/crd
	@go run ./hack/crdgen config/crd
	@$(CONTROLLER_GEN) rbac:roleName=heighliner-manager paths=./controllers/... output:rbac:dir=config/rbac
	@go run ./hack/chartgen .

.PHONY: chart
chart: ## Generate the parts of charts/heighliner that are copied from config, and generate values.yaml and its reference from the schema
	@go run ./hack/chartgen .

.PHONY: helm-test
helm-test: $(LOCALCLUSTER) ## Test the chart: compare it with kustomize, lint it, and install, upgrade, and uninstall it on a real API server
	@cd hack/helm && KUBEBUILDER_ASSETS="$$($(CURDIR)/$(LOCALCLUSTER) assets)" CGO_ENABLED=0 go test -trimpath -vet=off -count=1 -timeout 30m ./...

# Linters, at the versions in hack/lint/go.mod.
LINT := bin/golangci-lint
$(LINT): hack/lint/go.mod hack/lint/go.sum
	@echo "building the linters (this takes minutes the first time)"
	@cd hack/lint && $(GOBUILD) -o $(CURDIR)/$@ sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter

.PHONY: check
check: $(LINT) ## Run quick checks: formatting, linters on changed packages, and tests that do not need an API server; BASE=commit compares with another commit
	@hack/check.sh $(CURDIR)/$(LINT)

.PHONY: lint
lint: $(LINT) ## Check the formatting, and run golangci-lint and kube-api-linter, which .golangci.yml configures
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these files" >&2; exit 1; }
	@$(LINT) run ./...
	@cd hack/sampleapp && $(CURDIR)/$(LINT) run ./...
	@cd hack/localcluster && $(CURDIR)/$(LINT) run ./...

.PHONY: verify
verify: lint generate docs-api ## Fail if linters report problems, or if generated files or the modules that depend on this module are not up to date
	@for module in hack/boardtest hack/helm; do (cd $$module && go mod tidy -diff) || { echo "$$module is not up to date: run go mod tidy there" >&2; exit 1; }; done
	@git diff --exit-code -- apis config charts docs/reference/helm-values.md docs/reference/api.md || { echo "generated files are not up to date: commit the changes above" >&2; exit 1; }

.PHONY: words words-update
words: ## List words that should no longer be used, with file and line; IN=regexp selects files or phrases
	@cd test/words && go test -count=1 -run 'TestWords$$' -words.show '$(or $(IN),.)'

words-update: ## Lower the limits for these words in test/words/counts.txt to the current counts
	@go test ./test/words -count=1 -run 'TestWords$$' -words.update

##@ Clusters

.PHONY: install
install: ## Install Heighliner into the cluster in your kubeconfig; IMG=registry.example.com/heighliner:v0.1.0 is the image
	@hack/install.sh "$(IMG)"

.PHONY: install.yaml
install.yaml: ## Write install.yaml, for an installation with only kubectl; VERSION=v0.2.0 IMG=registry.example.com/heighliner
	@go run ./hack/release -install -version "$(VERSION)" -image "$(IMG)" >$@.new && mv $@.new $@ || { rm -f $@.new; exit 1; }

.PHONY: release
release: ## Reproducibly build all files of a release in dist/VERSION; VERSION=v0.2.0 IMG=registry.example.com/heighliner
	@hack/release/build.sh "$(VERSION)" "$(IMG)" "$(PLATFORMS)"

.PHONY: bin/helm helm-smoke
bin/helm:
	@echo "building helm (this takes minutes the first time)"
	@cd hack/helm && $(GOBUILD) -ldflags "-s -w" -o $(CURDIR)/$@ helm.sh/helm/v4/cmd/helm

helm-smoke: cluster-up build bin/sampleapp bin/helm ## Install the chart on the local cluster, and measure the time until the first release serves traffic; removes an existing installation
	@hack/helm/smoke.sh

.PHONY: uninstall
uninstall: ## Remove Heighliner, its CRDs, and all of their objects
	@hack/uninstall.sh config/default

.PHONY: local-install
local-install: build $(LOCALCLUSTER) ## Install Heighliner from this repository into the local cluster
	@hack/localcluster/install.sh

##@ Long-running tests

.PHONY: e2e
e2e: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the end-to-end tests on the local cluster, which takes 95 minutes; GROUP=traffic selects one group of tests, E2E='-run TestSplit' one test
	@$(LOCALCLUSTER) packages tmux redis-server psql
	@echo "compiling the end-to-end tests (this takes about a minute longer the first time)"
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) KUBECTL="$$($(LOCALCLUSTER) assets)/kubectl" CGO_ENABLED=0 go test -trimpath -tags e2e -count=1 -timeout 150m -v ./test/e2e $(if $(GROUP),-group $(GROUP)) $(E2E)

.PHONY: smoke
smoke: cluster-up local-install bin/demo bin/sampleapp bin/hlnr ## Run the short end-to-end test: the main demo, which exits non-zero on failure
	@KUBECONFIG=$$($(LOCALCLUSTER) kubeconfig) bin/demo -kubectl "$$($(LOCALCLUSTER) assets)/kubectl"

.PHONY: sim sim-planner sim-pair
sim: sim-planner sim-pair ## Run new random histories: 100,000 of the planner, and 20,000 of the planner together with the policies

sim-planner: ## Run the first part of sim; SIM=n sets the number of histories, SEED=n the seed
	@CGO_ENABLED=0 go test -trimpath ./internal/release -v -count=1 -timeout 60m -run TestSimulate -sim.histories $(or $(SIM),100000) -sim.seed $(or $(SEED),0)

sim-pair: ## Run the second part of sim; SIM=n sets the number of histories, SEED=n the seed
	@CGO_ENABLED=0 go test -trimpath ./controllers/networkpolicy/traffic -v -count=1 -timeout 60m -run TestPlannerAndPolicies -pair.histories $(or $(SIM),20000) -pair.seed $(or $(SEED),0)

.PHONY: sim-policies
sim-policies: ## Run SIM=2000 random histories of the policies alone, with rollout states that no planner writes; SEED=n repeats a run
	@CGO_ENABLED=0 go test -trimpath ./controllers/networkpolicy/traffic -count=1 -timeout 60m -run 'TestPropertiesOverHistories' -rapid.checks $(or $(SIM),2000) -rapid.seed $(or $(SEED),$(shell od -An -N6 -tu8 /dev/urandom | tr -d ' ')) -rapid.nofailfile

.PHONY: upgrade
upgrade: $(LOCALCLUSTER) ## Start another build of the manager with SERVICES=100 Microservices that have five releases each, and check that the manager does not write to the API server
	@KUBEBUILDER_ASSETS="$$($(LOCALCLUSTER) assets)" go test ./cmd/heighliner -v -count=1 -timeout 60m -run TestUpgradeWritesNothing -upgrade.services $(or $(SERVICES),100) -upgrade.versions 5

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME=60s, one after another; FUZZ=regexp selects targets by folder and name
	@hack/fuzz.sh "$(or $(FUZZTIME),60s)" "$(FUZZ)"

.PHONY: flakes
flakes: $(LOCALCLUSTER) ## Run the tests RUNS=5 times with LOAD=0 busy processes, and list the tests that failed in any of the runs; PKG=./controllers/... selects packages, RACE=1 enables the race detector
	@$(LOCALCLUSTER) packages $(TESTPACKAGES) $(if $(RACE),gcc)
	@KUBEBUILDER_ASSETS="$$($(LOCALCLUSTER) assets)" TEST_DISTRIBUTION="$$($(LOCALCLUSTER) programs distribution)" RACE="$(RACE)" PLAIN="$(PURE) $(PLAIN)" FLAGS="$(TESTFLAGS)" hack/flakes.sh "$(or $(RUNS),5)" "$(or $(LOAD),0)" $(PKG)

.PHONY: bench
bench: ## Run the benchmarks
	@go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-scale
bench-scale: build $(LOCALCLUSTER) ## Measure requests, processor time, and memory for N=200 services on simulated nodes; PEER=argo-rollouts or flagger PEER_BIN=path PEER_CRDS=path compares with another product; ARGS='-o file'
	@assets=$$($(LOCALCLUSTER) assets) && kwok=$$($(LOCALCLUSTER) programs kwok) && $(GOBUILD) -o bin/benchscale ./hack/benchscale && \
		exec bin/benchscale -n "$(or $(N),200)" -assets "$$assets" -kwok "$$kwok" -manager bin/heighliner -comment "$(VERSION)" \
		$(if $(PEER),-peer "$(PEER)" -peer-bin "$(PEER_BIN)" -peer-crds "$(PEER_CRDS)") $(ARGS)

.PHONY: bench-hlnr
bench-hlnr: bin/hlnr $(LOCALCLUSTER) ## Measure how long users wait for hlnr: first output with 200 services, changes with 500; ARGS='-runs 50'
	@KUBEBUILDER_ASSETS="$$($(LOCALCLUSTER) assets)" go run ./hack/benchhlnr -hlnr bin/hlnr $(ARGS)

##@ Documents

.PHONY: docs-api
docs-api: ## Generate docs/reference/api.md from the Go types
	@go run github.com/elastic/crd-ref-docs@v0.3.0 --log-level=WARN --source-path=apis/v1alpha1 --config=hack/apidocs/config.yaml --templates-dir=hack/apidocs/templates --renderer=markdown --max-depth=20 --output-path=docs/reference/api.md
	@sed -i 's# <br /> |$$# |#; s# <br /># · #g; s#<br /># #g; s#(?P<#(?P\&lt;#g; s#<nil>#nil#g' docs/reference/api.md
	@cat -s docs/reference/api.md > docs/reference/api.md.new && mv docs/reference/api.md.new docs/reference/api.md

.PHONY: docs-cli
docs-cli: ## Generate docs/reference/hlnr and the man pages in bin/man from the commands of hlnr
	@go test ./cmd/hlnr -count=1 -run 'TestReference$$' -update -man "$(CURDIR)/bin/man"

.PHONY: site
site: ## Build the website from docs into bin/site, and check its links; the first run compiles Hugo, which takes several minutes
	@cd hack/site && CGO_ENABLED=0 go tool hugo --quiet --noBuildLock --panicOnWarning --cleanDestinationDir --destination "$(CURDIR)/bin/site"
	@cd hack/site && go test . && go run . "$(CURDIR)/bin/site"

.PHONY: dashboards
dashboards: ## Generate the alerts and dashboards in config/components with hack/dashboards
	@go run ./hack/dashboards .

.PHONY: gitops
gitops: ## Generate the Argo CD configuration from its Lua files
	@cd hack/gitops && go run . ../..

.PHONY: dashboards-test
dashboards-test: $(LOCALCLUSTER) ## Run the unit tests of the alerts, and run each dashboard query on a Prometheus that scrapes a manager; PICTURES=folder draws the results
	@$(LOCALCLUSTER) packages prometheus promtool docker-registry
	@assets=$$($(LOCALCLUSTER) assets) && KUBEBUILDER_ASSETS="$$assets" PICTURES="$(abspath $(PICTURES))" go test -tags dashboards -count=1 -timeout 20m -v ./hack/dashboards

.PHONY: picture
picture: ## Draw docs/images/demo.svg from the recording of "bin/demo -record docs/images/demo.json"
	@go run ./hack/picture docs/images/demo.json docs/images/demo.svg
