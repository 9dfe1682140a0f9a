-- Requests a scan now.
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["hlnr.io/requestedAt"] = os.date("!%Y-%m-%dT%H:%M:%SZ")
return obj
