package schema_test

func together(fields string) string {
	return `spec: {updateStrategy: {canary: {steps: [{weight: 10}], together: {` + fields + `}}}}`
}

// togetherRows are the rows for spec.updateStrategy.canary.together.
var togetherRows = map[string]row{
	"msvc together":                   {kind: "Microservice", patch: together(`name: checkout`)},
	"msvc together all fields":        {kind: "Microservice", patch: together(`name: checkout, onFailure: RollBack`)},
	"msvc together with Hold":         {kind: "Microservice", patch: together(`name: 2nd-try, onFailure: Hold`)},
	"msvc together name absent":       {kind: "Microservice", patch: together(`onFailure: Hold`), refused: "spec.updateStrategy.canary.together.name: Required value"},
	"msvc together name empty":        {kind: "Microservice", patch: together(`name: ""`), refused: "spec.updateStrategy.canary.together.name"},
	"msvc together name invalid":      {kind: "Microservice", patch: together(`name: Check_out`), refused: "spec.updateStrategy.canary.together.name must consist of lowercase letters"},
	"msvc together longest name":      {kind: "Microservice", patch: together(`name: ` + long(63))},
	"msvc together name too long":     {kind: "Microservice", patch: together(`name: ` + long(64)), refused: "spec.updateStrategy.canary.together.name: Too long"},
	"msvc together unknown onFailure": {kind: "Microservice", patch: together(`name: checkout, onFailure: Ignore`), refused: "spec.updateStrategy.canary.together.onFailure: Unsupported value"},
}
