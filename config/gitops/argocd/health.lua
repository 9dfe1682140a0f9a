-- Argo CD health of the hlnr.io kinds that discover, run and route versions, based on the conditions that all of these kinds have.
-- Ready remains True during a canary, and after a newer version has failed: no commit caused these states, so the application remains Healthy.
local health = {status = "Progressing", message = "not reconciled yet"}
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "is being deleted"
  return health
end
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
if obj.kind == "VersionedMicroservice" and obj.status.release == "error" then
  return {status = "Degraded", message = obj.status.message or "the release failed"}
end
for _, c in ipairs(obj.status.conditions) do
  if c.type == "Stalled" and c.status == "True" then
    return {status = "Degraded", message = c.message}
  end
  if c.type == "Ready" then
    health.message = c.message
    if c.status == "True" then
      health.status = "Healthy"
    end
  end
end
return health
