-- The decisions that are possible for a release now.
local release, step = "", ""
if obj.status ~= nil then
  release, step = obj.status.release or "", obj.status.step or ""
end
local rollout = release == "pending" or release == "canary"
return {
  ["continue"] = {disabled = not (release == "canary" and step ~= "")},
  ["adopt"] = {disabled = not rollout},
  ["deprecate"] = {disabled = not rollout},
  ["retry"] = {disabled = release ~= "error"},
}
