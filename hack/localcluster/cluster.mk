# Targets of the local cluster; included by the Makefile at the root.
LOCALCLUSTER := bin/localcluster

.PHONY: localcluster $(LOCALCLUSTER) cluster-up cluster-down cluster-status

$(LOCALCLUSTER):
	@cd hack/localcluster && go build -trimpath -o $(CURDIR)/$@ .

localcluster: $(LOCALCLUSTER) ## Build bin/localcluster, the command of the local cluster, which also builds programs for tests

cluster-up: $(LOCALCLUSTER) ## Start the local cluster (Linux, root); the first build takes about ten minutes
	@$(LOCALCLUSTER) up

cluster-down: $(LOCALCLUSTER) ## End the local cluster and remove all its remains
	@$(LOCALCLUSTER) down

cluster-status: $(LOCALCLUSTER) ## Show the parts of the local cluster
	@$(LOCALCLUSTER) status
