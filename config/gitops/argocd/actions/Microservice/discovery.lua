-- Pause and resume everything that starts automatically. Self-heal restores the value in Git, if Git contains the field.
local paused = obj.spec.paused == true
return {
  ["pause"] = {disabled = paused},
  ["resume"] = {disabled = not paused},
}
