# Targets for the local cluster, which the Makefile in the root folder includes.
LOCALCLUSTER := bin/localcluster

.PHONY: localcluster $(LOCALCLUSTER) cluster-up cluster-down cluster-status

$(LOCALCLUSTER):
	@cd hack/localcluster && go build -trimpath -o $(CURDIR)/$@ .

localcluster: $(LOCALCLUSTER) ## Build bin/localcluster, which runs the local cluster and builds programs for tests

cluster-up: $(LOCALCLUSTER) ## Start the local cluster (Linux, root); the first build takes about ten minutes
	@$(LOCALCLUSTER) up

cluster-down: $(LOCALCLUSTER) ## Stop the local cluster and remove everything that it created
	@$(LOCALCLUSTER) down

cluster-status: $(LOCALCLUSTER) ## Show the parts of the local cluster
	@$(LOCALCLUSTER) status
