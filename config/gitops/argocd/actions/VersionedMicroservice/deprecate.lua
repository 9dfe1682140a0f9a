-- Aborts the rollout of the release.
-- The API server accepts a decision only with the name of the user who writes it, which here is the Argo CD server.
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["hlnr.io/decided-by"] = "system:serviceaccount:argocd:argocd-server"
obj.spec.decision = {action = "Deprecate", id = "argocd-" .. os.date("!%Y%m%dT%H%M%SZ"), reason = "by an action in Argo CD"}
return obj
