-- Pause and resume what starts automatically. Self-heal restores the value of Git, if Git has one.
local paused = obj.spec.paused == true
return {
  ["pause"] = {disabled = paused},
  ["resume"] = {disabled = not paused},
}
