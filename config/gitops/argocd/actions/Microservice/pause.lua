-- Stops everything that starts automatically: no version starts, and no canary advances.
obj.spec.paused = true
return obj
