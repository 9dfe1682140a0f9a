-- A scan can be requested at any time.
return {["scan"] = {disabled = false}}
