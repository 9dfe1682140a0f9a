package schema_test

import "strings"

// hook returns a patch for a Microservice with one hook. The hook has the type Event and a URL. The
// given fields can override both. YAML does not allow duplicate keys, so fields are merged by name.
func hook(fields string) string {
	base := map[string]string{"name": "a", "type": "Event", "url": `"http://hooks.example.com/a"`}
	order := []string{"name", "type", "url"}
	for _, field := range strings.Split(fields, "; ") {
		name, value, ok := strings.Cut(field, ": ")
		if !ok {
			continue
		}
		if _, known := base[name]; !known {
			order = append(order, name)
		}
		base[name] = value
	}
	var set []string
	for _, name := range order {
		if base[name] != "absent" {
			set = append(set, name+": "+base[name])
		}
	}
	return hooks("{" + strings.Join(set, ", ") + "}")
}

func hooks(items ...string) string {
	return `spec: {updateStrategy: {canary: {steps: [{weight: 1}, {name: half, weight: 50}], hooks: [` + strings.Join(items, ", ") + `]}}}`
}

// job returns a patch for a Microservice with one hook that runs a Job.
func job(fields string) string {
	return hook(`type: ConfirmRollout; url: absent; job: {` + fields + `}`)
}

func url(value string) string { return hook(`url: "` + value + `"`) }

const (
	badURL      = "url must be an absolute http or https URL without a username, password or fragment"
	badInterval = "interval must be between 1s and 1h"
	badTimeout  = "timeout must be between 1s and 1m"
	hookField   = "spec.updateStrategy.canary.hooks[0]."
	jobField    = hookField + "job."
)

var hookRows = map[string]row{
	"msvc hook":                                {kind: "Microservice", patch: hook("")},
	"msvc hook with all fields":                {kind: "Microservice", patch: hook(`type: Rollout; timeout: 1m; retries: 5; secretRef: {name: a}; caSecretRef: {name: a}; metadata: {team: checkout}; steps: [half]`)},
	"msvc hook as a gate":                      {kind: "Microservice", patch: hook(`type: ConfirmTrafficIncrease; interval: 1h; steps: [half]`)},
	"msvc hooks, maximum":                      {kind: "Microservice", patch: hooks(strings.Trim(numbered(`{name: h#, type: Event, url: "http://a"}`, 16), "[]"))},
	"msvc too many hooks":                      {kind: "Microservice", patch: hooks(strings.Trim(numbered(`{name: h#, type: Event, url: "http://a"}`, 17), "[]")), refused: "spec.updateStrategy.canary.hooks: Too many"},
	"msvc hook twice":                          {kind: "Microservice", patch: hooks(`{name: a, type: Event, url: "http://a"}`, `{name: a, type: Rollout, url: "http://a"}`), refused: "Duplicate value"},
	"msvc hook without a name":                 {kind: "Microservice", patch: hook("name: absent"), refused: hookField + "name: Required value"},
	"msvc hook's name in upper case":           {kind: "Microservice", patch: hook("name: A"), refused: hookField + "name"},
	"msvc hook's name too long":                {kind: "Microservice", patch: hook("name: " + long(64)), refused: hookField + "name: Too long"},
	"msvc hook without a type":                 {kind: "Microservice", patch: hook("type: absent"), refused: hookField + "type: Required value"},
	"msvc hook of another type":                {kind: "Microservice", patch: hook("type: event"), refused: `supported values: "ConfirmRollout", "PreRollout", "Rollout", "ConfirmTrafficIncrease", "ConfirmPromotion", "PostRollout", "PostPreview", "Rollback", "Event"`},
	"msvc hook without a url":                  {kind: "Microservice", patch: hook("url: absent"), refused: "set exactly one of url and job"},
	"msvc hook's job":                          {kind: "Microservice", patch: job(`command: [migrate]`)},
	"msvc hook's job, empty":                   {kind: "Microservice", patch: job(``)},
	"msvc hook's job with all fields":          {kind: "Microservice", patch: job(`command: [sh, -c], args: [a], image: "registry.example.com/a:1", env: [{name: A_1, value: b}], resources: {limits: {memory: 64Mi}}, timeout: 24h, backoffLimit: 10, ttlAfterFinished: 720h`)},
	"msvc hook with url and job":               {kind: "Microservice", patch: hook(`type: PreRollout; job: {}`), refused: "set exactly one of url and job"},
	"msvc event as a job":                      {kind: "Microservice", patch: hook(`url: absent; job: {}`), refused: "job is not allowed for the types Rollback and Event"},
	"msvc rollback as a job":                   {kind: "Microservice", patch: hook(`type: Rollback; url: absent; job: {}`), refused: "job is not allowed for the types Rollback and Event"},
	"msvc job with a timeout":                  {kind: "Microservice", patch: hook(`type: PreRollout; url: absent; job: {}; timeout: 5s`), refused: "for a job, set job.timeout"},
	"msvc job with retries":                    {kind: "Microservice", patch: hook(`type: PreRollout; url: absent; job: {}; retries: 1`), refused: "for a job, set job.timeout"},
	"msvc job with an interval":                {kind: "Microservice", patch: hook(`type: ConfirmRollout; url: absent; job: {}; interval: 5s`), refused: "for a job, set job.timeout"},
	"msvc job with a key":                      {kind: "Microservice", patch: hook(`type: PreRollout; url: absent; job: {}; secretRef: {name: a}`), refused: "for a job, set job.timeout"},
	"msvc job with authorities":                {kind: "Microservice", patch: hook(`type: PreRollout; url: absent; job: {}; caSecretRef: {name: a}`), refused: "for a job, set job.timeout"},
	"msvc job with metadata":                   {kind: "Microservice", patch: hook(`type: PreRollout; url: absent; job: {}; metadata: {a: b}`), refused: "for a job, set job.timeout"},
	"msvc job's command empty":                 {kind: "Microservice", patch: job(`command: []`), refused: jobField + "command"},
	"msvc job's command with too many items":   {kind: "Microservice", patch: job(`command: ` + numbered(`a#`, 65)), refused: jobField + "command: Too many"},
	"msvc job's command too long":              {kind: "Microservice", patch: job(`command: [` + long(4097) + `]`), refused: jobField + "command[0]: Too long"},
	"msvc job with too many args":              {kind: "Microservice", patch: job(`args: ` + numbered(`a#`, 65)), refused: jobField + "args: Too many"},
	"msvc job's args too long":                 {kind: "Microservice", patch: job(`args: [` + long(4097) + `]`), refused: jobField + "args[0]: Too long"},
	"msvc job's image empty":                   {kind: "Microservice", patch: job(`image: ""`), refused: jobField + "image"},
	"msvc job's image with a space":            {kind: "Microservice", patch: job(`image: "a b"`), refused: "job.image must not contain whitespace"},
	"msvc job's image too long":                {kind: "Microservice", patch: job(`image: ` + long(513)), refused: jobField + "image: Too long"},
	"msvc job with too many variables":         {kind: "Microservice", patch: job(`env: ` + numbered(`{name: A#}`, 33)), refused: jobField + "env: Too many"},
	"msvc job's env twice":                     {kind: "Microservice", patch: job(`env: [{name: A}, {name: A}]`), refused: "Duplicate value"},
	"msvc job's env reserved":                  {kind: "Microservice", patch: job(`env: [{name: HLNR_VERSION}]`), refused: "HLNR_, which is reserved"},
	"msvc job's env, leading digit":            {kind: "Microservice", patch: job(`env: [{name: 1A}]`), refused: "the name of a variable must consist of"},
	"msvc job's env without a name":            {kind: "Microservice", patch: job(`env: [{value: a}]`), refused: jobField + "env[0].name: Required value"},
	"msvc job's env name empty":                {kind: "Microservice", patch: job(`env: [{name: ""}]`), refused: jobField + "env[0].name"},
	"msvc job's env name long":                 {kind: "Microservice", patch: job(`env: [{name: ` + long(129) + `}]`), refused: jobField + "env[0].name: Too long"},
	"msvc job's env value long":                {kind: "Microservice", patch: job(`env: [{name: A, value: ` + long(1025) + `}]`), refused: jobField + "env[0].value: Too long"},
	"msvc job with too many limits":            {kind: "Microservice", patch: job(`resources: {limits: {` + strings.Trim(numbered(`a#: "1"`, 9), "[]") + `}}`), refused: "job.resources.limits: at most 8 resources"},
	"msvc job with too many resource requests": {kind: "Microservice", patch: job(`resources: {requests: {` + strings.Trim(numbered(`a#: "1"`, 9), "[]") + `}}`), refused: "job.resources.requests: at most 8 resources"},
	"msvc job's limits as a word":              {kind: "Microservice", patch: job(`resources: {limits: {memory: much}}`), refused: jobField + "resources.limits.memory"},
	"msvc job's timeout short":                 {kind: "Microservice", patch: job(`timeout: 999ms`), refused: "job.timeout must be between 1s and 24h"},
	"msvc job's timeout long":                  {kind: "Microservice", patch: job(`timeout: 1441m`), refused: "job.timeout must be between 1s and 24h"},
	"msvc job's retries negative":              {kind: "Microservice", patch: job(`backoffLimit: -1`), refused: jobField + "backoffLimit"},
	"msvc job with too many retries":           {kind: "Microservice", patch: job(`backoffLimit: 11`), refused: jobField + "backoffLimit"},
	"msvc job kept for too short a time":       {kind: "Microservice", patch: job(`ttlAfterFinished: 59s`), refused: "job.ttlAfterFinished must be between 1m and 720h"},
	"msvc job kept for too long":               {kind: "Microservice", patch: job(`ttlAfterFinished: 721h`), refused: "job.ttlAfterFinished must be between 1m and 720h"},
	"msvc job with a typo":                     {kind: "Microservice", patch: job(`comand: [a]`), refused: `unknown field "` + jobField + `comand"`},
	"msvc hook to https with a port":           {kind: "Microservice", patch: url("https://tests.example.com:8443/a/b?c=d&e=f")},
	"msvc hook to a service":                   {kind: "Microservice", patch: url("http://tests.qa.svc")},
	"msvc hook to an IPv6 address":             {kind: "Microservice", patch: url("http://[fd00::1]:8080/a")},
	"msvc hook's url empty":                    {kind: "Microservice", patch: url(""), refused: badURL},
	"msvc hook's url too long":                 {kind: "Microservice", patch: url("http://" + long(1018)), refused: hookField + "url: Too long"},
	"msvc hook to a file":                      {kind: "Microservice", patch: url("file:///etc/passwd"), refused: badURL},
	"msvc hook to gopher":                      {kind: "Microservice", patch: url("gopher://a/b"), refused: badURL},
	"msvc hook's scheme in upper case":         {kind: "Microservice", patch: url("HTTP://a/b"), refused: badURL},
	"msvc hook without a host":                 {kind: "Microservice", patch: url("http:///b"), refused: badURL},
	"msvc hook with a user":                    {kind: "Microservice", patch: url("http://user@a/b"), refused: badURL},
	"msvc hook with a password":                {kind: "Microservice", patch: url("http://user:word@a/b"), refused: badURL},
	"msvc hook with a fragment":                {kind: "Microservice", patch: url("http://a/b#c"), refused: badURL},
	"msvc hook with a space":                   {kind: "Microservice", patch: url("http://a/b c"), refused: badURL},
	"msvc hook with a line feed":               {kind: "Microservice", patch: url(`http://a/b\nHost: c`), refused: badURL},
	"msvc hook with a bad escape":              {kind: "Microservice", patch: url("http://a/%zz"), refused: badURL},
	"msvc hook with a bad port":                {kind: "Microservice", patch: url("http://a:b/c"), refused: badURL},
	"msvc hook's timeout, minimum":             {kind: "Microservice", patch: hook("timeout: 1s")},
	"msvc hook's timeout short":                {kind: "Microservice", patch: hook("timeout: 999ms"), refused: badTimeout},
	"msvc hook's timeout long":                 {kind: "Microservice", patch: hook("timeout: 61s"), refused: badTimeout},
	"msvc hook's timeout as a number":          {kind: "Microservice", patch: hook(`timeout: "10"`), refused: hookField + "timeout"},
	"msvc hook without retries":                {kind: "Microservice", patch: hook("retries: 0")},
	"msvc hook's retries negative":             {kind: "Microservice", patch: hook("retries: -1"), refused: hookField + "retries"},
	"msvc hook with too many retries":          {kind: "Microservice", patch: hook("retries: 6"), refused: hookField + "retries"},
	"msvc hook of previews":                    {kind: "Microservice", patch: hook("type: PostPreview; retries: 5")},
	"msvc hook of previews, flag":              {kind: "Microservice", patch: hook("type: PostPreview; previews: true"), refused: "PostPreview and Event hooks are always called for previews"},
	"msvc hook of previews, poll":              {kind: "Microservice", patch: hook("type: PostPreview; interval: 10s"), refused: "interval is allowed only for the types that are called periodically"},
	"msvc gate with retries":                   {kind: "Microservice", patch: hook("type: ConfirmPromotion; retries: 1"), refused: "retries is allowed only for the types PreRollout, Rollout, PostRollout, PostPreview and Event"},
	"msvc gate's interval, minimum":            {kind: "Microservice", patch: hook("type: ConfirmRollout; interval: 1s")},
	"msvc gate's interval short":               {kind: "Microservice", patch: hook("type: Rollback; interval: 999ms"), refused: badInterval},
	"msvc gate's interval long":                {kind: "Microservice", patch: hook("type: ConfirmPromotion; interval: 61m"), refused: badInterval},
	"msvc gate's interval as a word":           {kind: "Microservice", patch: hook("type: ConfirmPromotion; interval: often"), refused: hookField + "interval"},
	"msvc event with an interval":              {kind: "Microservice", patch: hook("interval: 10s"), refused: "interval is allowed only for the types that are called periodically"},
	"msvc hook's secret empty":                 {kind: "Microservice", patch: hook(`secretRef: {name: ""}`), refused: hookField + "secretRef.name"},
	"msvc hook's secret too long":              {kind: "Microservice", patch: hook(`secretRef: {name: ` + long(254) + `}`), refused: hookField + "secretRef.name"},
	"msvc hook's CA empty":                     {kind: "Microservice", patch: hook(`caSecretRef: {name: ""}`), refused: hookField + "caSecretRef.name"},
	"msvc hook's metadata":                     {kind: "Microservice", patch: hook(`metadata: {` + strings.Trim(numbered(`k#: `+long(256), 16), "[]") + `}`)},
	"msvc hook with too much metadata":         {kind: "Microservice", patch: hook(`metadata: {` + strings.Trim(numbered(`k#: v`, 17), "[]") + `}`), refused: hookField + "metadata: Too many"},
	"msvc hook's metadata key long":            {kind: "Microservice", patch: hook(`metadata: {` + long(64) + `: v}`), refused: "metadata: keys must have 1 to 63 characters"},
	"msvc hook's metadata key empty":           {kind: "Microservice", patch: hook(`metadata: {"": v}`), refused: "metadata: keys must have 1 to 63 characters"},
	"msvc hook's metadata long":                {kind: "Microservice", patch: hook(`metadata: {k: ` + long(257) + `}`), refused: hookField + "metadata.k: Too long"},
	"msvc hook for previews":                   {kind: "Microservice", patch: hook(`type: PreRollout; previews: true`)},
	"msvc hook's previews, Event":              {kind: "Microservice", patch: hook(`previews: true`), refused: "previews is allowed only for the types ConfirmRollout and PreRollout"},
	"msvc hook's steps empty":                  {kind: "Microservice", patch: hook(`type: Rollout; steps: []`), refused: hookField + "steps"},
	"msvc hook's steps too many":               {kind: "Microservice", patch: hook(`type: Rollout; steps: ` + numbered(`s#`, 33)), refused: hookField + "steps: Too many"},
	"msvc hook's step twice":                   {kind: "Microservice", patch: hook(`type: Rollout; steps: [half, half]`), refused: "Duplicate value"},
	"msvc hook's step too long":                {kind: "Microservice", patch: hook(`type: Rollout; steps: [` + long(64) + `]`), refused: hookField + "steps[0]: Too long"},
	"msvc hook's step unknown":                 {kind: "Microservice", patch: hook(`type: Rollout; steps: [third]`), refused: "spec.updateStrategy.canary.hooks: hooks[].steps must contain names of steps (steps[].name), not numbers"},
	"msvc event with steps":                    {kind: "Microservice", patch: hook(`steps: [half]`), refused: "steps is allowed only for the types Rollout and ConfirmTrafficIncrease"},
	"msvc hook with a typo":                    {kind: "Microservice", patch: hook(`tiemout: 1s`), refused: `unknown field "` + hookField + `tiemout"`},
}

// autoscaled returns a patch that sets spec.availability.autoscaling, with the given fields.
func autoscaled(fields string) string {
	return `spec: {availability: {autoscaling: {` + fields + `}}}`
}

const (
	cpuMetric    = `{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}`
	autoscalingF = "spec.availability.autoscaling."
)

var autoscalingRows = map[string]row{
	"msvc autoscaling":                            {kind: "Microservice", patch: autoscaled(`maxReplicas: 10`)},
	"msvc autoscaling with all fields":            {kind: "Microservice", patch: autoscaled(`minReplicas: 2, maxReplicas: 10, metrics: [` + cpuMetric + `], behavior: {scaleDown: {stabilizationWindowSeconds: 60}}`)},
	"msvc autoscaling without a maximum":          {kind: "Microservice", patch: autoscaled(`minReplicas: 2`), refused: autoscalingF + "maxReplicas: Required value"},
	"msvc autoscaling with maximum zero":          {kind: "Microservice", patch: autoscaled(`maxReplicas: 0`), refused: autoscalingF + "maxReplicas"},
	"msvc autoscaling with too high a maximum":    {kind: "Microservice", patch: autoscaled(`maxReplicas: 1001`), refused: autoscalingF + "maxReplicas"},
	"msvc autoscaling with minimum zero":          {kind: "Microservice", patch: autoscaled(`maxReplicas: 10, minReplicas: 0`), refused: autoscalingF + "minReplicas"},
	"msvc autoscaling with minimum above maximum": {kind: "Microservice", patch: autoscaled(`maxReplicas: 2, minReplicas: 3`), refused: "autoscaling: minReplicas must be less than or equal to maxReplicas"},
	"msvc autoscaling below replicas":             {kind: "Microservice", patch: `spec: {availability: {replicas: 5, autoscaling: {maxReplicas: 4}}}`, refused: "spec.availability: replicas must be less than or equal to autoscaling.maxReplicas"},
	"msvc autoscaling above replicas":             {kind: "Microservice", patch: `spec: {availability: {replicas: 5, autoscaling: {maxReplicas: 5}}}`},
	"msvc autoscaling too many metrics":           {kind: "Microservice", patch: autoscaled(`maxReplicas: 2, metrics: ` + repeat(cpuMetric, 17)), refused: autoscalingF + "metrics: Too many"},
	"msvc autoscaling typo in a metric":           {kind: "Microservice", patch: autoscaled(`maxReplicas: 2, metrics: [{type: Resource, resuorce: {}}]`), refused: `unknown field "` + autoscalingF + `metrics[0].resuorce"`},
	"vsvc autoscaling":                            {kind: "VersionedMicroservice", patch: autoscaled(`minReplicas: 2, maxReplicas: 10, metrics: [` + cpuMetric + `]`)},
	"vsvc autoscaling with minimum above maximum": {kind: "VersionedMicroservice", patch: autoscaled(`maxReplicas: 2, minReplicas: 3`), refused: "autoscaling: minReplicas must be less than or equal to maxReplicas"},
	"vsvc autoscaling with maximum zero":          {kind: "VersionedMicroservice", patch: autoscaled(`maxReplicas: 0`), refused: autoscalingF + "maxReplicas"},
	"vsvc autoscaling with minimum zero":          {kind: "VersionedMicroservice", patch: autoscaled(`maxReplicas: 2, minReplicas: 0`), refused: autoscalingF + "minReplicas"},
	"vsvc autoscaling too many metrics":           {kind: "VersionedMicroservice", patch: autoscaled(`maxReplicas: 2, metrics: ` + repeat(cpuMetric, 17)), refused: autoscalingF + "metrics: Too many"},
	"vsvc autoscaling added":                      {kind: "VersionedMicroservice", update: true, patch: autoscaled(`minReplicas: 2, maxReplicas: 10`)},
}
