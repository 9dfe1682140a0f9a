-- Lets versions start and canaries advance again.
obj.spec.paused = nil
return obj
