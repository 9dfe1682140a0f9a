package schema_test

import "strings"

// step returns a patch for a Microservice with one step that has a weight of 10 and the given
// fields.
func step(fields ...string) string {
	return `spec: {updateStrategy: {canary: {steps: [{` + strings.Join(append([]string{"weight: 10"}, fields...), ", ") + `}]}}}`
}

func window(fields string) string { return step(`window: {` + fields + `}`) }

const (
	stepField    = "spec.updateStrategy.canary.steps[0]."
	badSpan      = "window: from and to must differ; write the beginning of a day as from: 00:00, and the end of a day as to: 24:00"
	configFields = "spec.configuration."
)

var stepRows = map[string]row{
	"msvc step with only matches":             {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0, match: true}, {weight: 10}]}}}`},
	"msvc step with only mirrored requests":   {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0, mirrorPercent: 100}, {weight: 10}]}}}`},
	"msvc step with all fields":               {kind: "Microservice", patch: step("name: a", "match: true", "mirrorPercent: 0", "approval: {}", "window: {}")},
	"msvc step without a weight":              {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{match: true}]}}}`, refused: stepField + "weight: Required value"},
	"msvc step mirrors over 100 percent":      {kind: "Microservice", patch: step("mirrorPercent: 101"), refused: stepField + "mirrorPercent"},
	"msvc step mirrors under 0 percent":       {kind: "Microservice", patch: step("mirrorPercent: -1"), refused: stepField + "mirrorPercent"},
	"msvc step's mirror as a word":            {kind: "Microservice", patch: step("mirrorPercent: all"), refused: stepField + "mirrorPercent"},
	"msvc step's match as a word":             {kind: "Microservice", patch: step("match: header"), refused: stepField + "match"},
	"msvc window that is always open":         {kind: "Microservice", patch: window("")},
	"msvc window with all fields":             {kind: "Microservice", patch: window(`timeZone: Europe/Zurich, days: [Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday], from: "09:00", to: "16:30"`)},
	"msvc window over midnight":               {kind: "Microservice", patch: window(`from: "22:00", to: "05:00"`)},
	"msvc window of one minute":               {kind: "Microservice", patch: window(`from: "23:59", to: "24:00"`)},
	"msvc window with only from":              {kind: "Microservice", patch: window(`from: "22:00"`)},
	"msvc window with only to":                {kind: "Microservice", patch: window(`to: "22:00"`)},
	"msvc window's zone with three parts":     {kind: "Microservice", patch: window(`timeZone: America/Argentina/Buenos_Aires`)},
	"msvc window's zone by offset":            {kind: "Microservice", patch: window(`timeZone: Etc/GMT+5`)},
	"msvc window's zone unknown":              {kind: "Microservice", patch: window(`timeZone: Europe/Berne`)}, // the manager reports it
	"msvc window's zone as a path":            {kind: "Microservice", patch: window(`timeZone: ../../etc/passwd`), refused: "window.timeZone must be a name from the IANA time zone database"},
	"msvc window's zone with a leading slash": {kind: "Microservice", patch: window(`timeZone: /Europe/Zurich`), refused: stepField + "window.timeZone"},
	"msvc window's zone empty":                {kind: "Microservice", patch: window(`timeZone: ""`), refused: stepField + "window.timeZone"},
	"msvc window's zone local":                {kind: "Microservice", patch: window(`timeZone: Local`), refused: "window.timeZone must not be Local, which is the time zone of the manager: use a name such as Europe/Zurich"},
	"msvc window's zone too long":             {kind: "Microservice", patch: window("timeZone: " + long(65)), refused: stepField + "window.timeZone: Too long"},
	"msvc window's day abbreviated":           {kind: "Microservice", patch: window(`days: [Mon]`), refused: `supported values: "Monday"`},
	"msvc window without days":                {kind: "Microservice", patch: window(`days: []`), refused: stepField + "window.days"},
	"msvc window's day twice":                 {kind: "Microservice", patch: window(`days: [Monday, Monday]`), refused: "Duplicate value"},
	"msvc window's time as a number":          {kind: "Microservice", patch: window(`from: 900`), refused: stepField + "window.from"},
	"msvc window's time short":                {kind: "Microservice", patch: window(`from: "9:00"`), refused: stepField + "window.from"},
	"msvc window's time with seconds":         {kind: "Microservice", patch: window(`to: "09:00:00"`), refused: stepField + "window.to"},
	"msvc window's hour too late":             {kind: "Microservice", patch: window(`to: "25:00"`), refused: stepField + "window.to"},
	"msvc window's minute too late":           {kind: "Microservice", patch: window(`to: "23:60"`), refused: stepField + "window.to"},
	"msvc window past midnight":               {kind: "Microservice", patch: window(`to: "24:01"`), refused: stepField + "window.to"},
	"msvc window without length":              {kind: "Microservice", patch: window(`from: "09:00", to: "09:00"`), refused: badSpan},
	"msvc window from the end of a day":       {kind: "Microservice", patch: window(`from: "24:00", to: "09:00"`), refused: badSpan},
	"msvc window to the start of a day":       {kind: "Microservice", patch: window(`from: "09:00", to: "00:00"`), refused: badSpan},
	"msvc canary with all replicas":           {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {scale: Full, steps: [{weight: 1}]}}}`},
	"msvc canary by weight":                   {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {scale: MatchWeight, steps: [{weight: 1}]}}}`},
	"msvc canary by pods":                     {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {traffic: Pods, scale: MatchWeight, steps: [{weight: 1}]}}}`},
	"msvc canary by routes":                   {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {traffic: Routes, scale: Full, steps: [{weight: 1, match: true}]}}}`},
	"msvc canary by something else":           {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {traffic: Replicas, steps: [{weight: 1}]}}}`, refused: `supported values: "Routes", "Pods"`},
	"msvc canary by pods, full scale":         {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {traffic: Pods, scale: Full, steps: [{weight: 1}]}}}`, refused: "scale must be MatchWeight"},
	"msvc canary by pods, match":              {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {traffic: Pods, steps: [{weight: 1, match: true}]}}}`, refused: "match and mirrorPercent need routes"},
	"msvc canary by pods, mirror":             {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {traffic: Pods, steps: [{weight: 1, mirrorPercent: 1}]}}}`, refused: "match and mirrorPercent need routes"},
	"msvc canary by pods, scaled":             {kind: "Microservice", patch: `spec: {availability: {autoscaling: {maxReplicas: 5}}, updateStrategy: {canary: {traffic: Pods, steps: [{weight: 1}]}}}`, refused: "scales each release"},
	"msvc exclusive":                          {kind: "Microservice", patch: `spec: {availability: {exclusive: true}, updateStrategy: {canary: {traffic: Pods, steps: [{weight: 100}, {weight: 100, pause: {duration: 1m}}]}}}`},
	"msvc exclusive, scaled":                  {kind: "Microservice", patch: `spec: {availability: {exclusive: true, autoscaling: {maxReplicas: 5}}}`},
	"msvc exclusive, partial weight":          {kind: "Microservice", patch: `spec: {availability: {exclusive: true}, updateStrategy: {canary: {steps: [{weight: 99}, {weight: 100}]}}}`, refused: "spec.updateStrategy.canary.steps: with spec.availability.exclusive a canary has all pods or none"},
	"msvc exclusive, match":                   {kind: "Microservice", patch: `spec: {availability: {exclusive: true}, updateStrategy: {canary: {steps: [{weight: 100, match: true}]}}}`, refused: "with spec.availability.exclusive a canary has all pods or none"},
	"msvc exclusive, mirror":                  {kind: "Microservice", patch: `spec: {availability: {exclusive: true}, updateStrategy: {canary: {steps: [{weight: 100, mirrorPercent: 1}]}}}`, refused: "with spec.availability.exclusive a canary has all pods or none"},
	"msvc exclusive by routes":                {kind: "Microservice", patch: `spec: {availability: {exclusive: true}, updateStrategy: {canary: {traffic: Routes, steps: [{weight: 100}]}}}`, refused: "spec.updateStrategy.canary.traffic must be Pods or omitted if spec.availability.exclusive is true"},
	"msvc exclusive, adoptFrom":               {kind: "Microservice", patch: `spec: {availability: {exclusive: true}, adoptFrom: {deploymentName: web}, deletionPolicy: Restore}`, refused: "spec.availability.exclusive cannot be combined with spec.adoptFrom"},
	"msvc not exclusive, partial weight":      {kind: "Microservice", patch: `spec: {availability: {exclusive: false}, updateStrategy: {canary: {steps: [{weight: 99}]}}}`},
	"msvc canary by routes, scaled":           {kind: "Microservice", patch: `spec: {availability: {autoscaling: {maxReplicas: 5}}, updateStrategy: {canary: {traffic: Routes, steps: [{weight: 1}]}}}`},
	"msvc canary's scale as a number":         {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {scale: "50", steps: [{weight: 1}]}}}`, refused: `supported values: "Full", "MatchWeight"`},
}

var configurationRows = map[string]row{
	"msvc configuration empty":                    {kind: "Microservice", patch: `spec: {configuration: {}}`},
	"msvc configuration tracks ConfigMaps":        {kind: "Microservice", patch: `spec: {configuration: {track: ConfigMaps, ignore: [election]}}`},
	"msvc configuration tracks Secrets too":       {kind: "Microservice", patch: `spec: {configuration: {track: All}}`},
	"msvc configuration tracks nothing":           {kind: "Microservice", patch: `spec: {configuration: {track: None}}`},
	"msvc configuration tracks only Secrets":      {kind: "Microservice", patch: `spec: {configuration: {track: Secrets}}`, refused: `supported values: "ConfigMaps", "All", "None"`},
	"msvc configuration ignores 32 objects":       {kind: "Microservice", patch: `spec: {configuration: {ignore: ` + numbered("a#", 32) + `}}`},
	"msvc configuration ignores too many objects": {kind: "Microservice", patch: `spec: {configuration: {ignore: ` + numbered("a#", 33) + `}}`, refused: configFields + "ignore: Too many"},
	"msvc configuration ignores an object twice":  {kind: "Microservice", patch: `spec: {configuration: {ignore: [a, a]}}`, refused: "Duplicate value"},
	"msvc configuration ignores a long name":      {kind: "Microservice", patch: `spec: {configuration: {ignore: [` + long(254) + `]}}`, refused: configFields + "ignore[0]: Too long"},
	"msvc configuration ignores an empty name":    {kind: "Microservice", patch: `spec: {configuration: {ignore: [""]}}`, refused: configFields + "ignore[0]"},
}
