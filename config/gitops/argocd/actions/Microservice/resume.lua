-- Allows versions to start and canaries to advance again.
obj.spec.paused = nil
return obj
