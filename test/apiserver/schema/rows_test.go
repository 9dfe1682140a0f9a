package schema_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// row changes the base object of a kind. If update is true, the base object is created first and then updated.
type row struct {
	kind   string
	patch  string
	update bool
	// from is the patch for the base object that is created before an update. Defaults to a patch that sets a
	// field of the template.
	from string
	// refused is part of the server's message, and is empty if the object is accepted.
	refused string
}

func repeat(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// numbered returns a list of n repetitions of item. In each repetition, it replaces # with a different pair of letters.
func numbered(item string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ReplaceAll(item, "#", string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	return "[" + strings.Join(items, ",") + "]"
}

func long(n int) string { return strings.Repeat("a", n) }

// mergeRows joins the tables of the kinds.
func mergeRows(tables ...map[string]row) map[string]row {
	out := map[string]row{}
	for _, table := range tables {
		maps.Copy(out, table)
	}
	return out
}

var rows = mergeRows(imagePolicyRows, microserviceRows, releaseRows, networkPolicyRows, hookRows, autoscalingRows, analysisRows, templateRows(), stepRows, configurationRows, togetherRows, freezeRows(), notificationRows, discoveryRows, repositoryRows, routingRows, tlsRows, headerRows())

var imagePolicyRows = map[string]row{
	"imgp smallest":                     {kind: "ImagePolicy"},
	"imgp image absent":                 {kind: "ImagePolicy", patch: `spec: {image: null}`, refused: "spec.image: Required value"},
	"imgp image empty":                  {kind: "ImagePolicy", patch: `spec: {image: ""}`, refused: "spec.image"},
	"imgp image too long":               {kind: "ImagePolicy", patch: `spec: {image: ` + long(256) + `}`, refused: "spec.image: Too long"},
	"imgp image with a port":            {kind: "ImagePolicy", patch: `spec: {image: "10.250.0.1:5000/shop"}`},
	"imgp image with an IPv6 host":      {kind: "ImagePolicy", patch: `spec: {image: "[::1]:5000/shop"}`},
	"imgp image of one word":            {kind: "ImagePolicy", patch: `spec: {image: nginx}`},
	"imgp image with folders":           {kind: "ImagePolicy", patch: `spec: {image: "registry.example.com/a/b_c/d--e"}`},
	"imgp image with a tag":             {kind: "ImagePolicy", patch: `spec: {image: "registry.example.com/shop:1.0"}`, refused: "omit the tag"},
	"imgp image of one word with a tag": {kind: "ImagePolicy", patch: `spec: {image: "shop:1.0"}`, refused: "omit the tag"},
	"imgp image with a digest":          {kind: "ImagePolicy", patch: `spec: {image: "registry.example.com/shop@sha256:00"}`, refused: "omit the tag and the digest"},
	"imgp image with a scheme":          {kind: "ImagePolicy", patch: `spec: {image: "https://registry.example.com/shop"}`, refused: "spec.image must not have a scheme"},
	"imgp image in upper case":          {kind: "ImagePolicy", patch: `spec: {image: "registry.example.com/Shop"}`, refused: "lowercase"},
	"imgp image with a space":           {kind: "ImagePolicy", patch: `spec: {image: "registry.example.com/the shop"}`, refused: "lowercase"},

	"imgp pull secrets":               {kind: "ImagePolicy", patch: `spec: {imagePullSecrets: ` + numbered(`{name: s#}`, 8) + `}`},
	"imgp too many pull secrets":      {kind: "ImagePolicy", patch: `spec: {imagePullSecrets: ` + numbered(`{name: s#}`, 9) + `}`, refused: "spec.imagePullSecrets: Too many"},
	"imgp pull secret twice":          {kind: "ImagePolicy", patch: `spec: {imagePullSecrets: [{name: a}, {name: a}]}`, refused: "Duplicate value"},
	"imgp pull secret without a name": {kind: "ImagePolicy", patch: `spec: {imagePullSecrets: [{name: ""}]}`, refused: "spec.imagePullSecrets[0].name"},
	"imgp pull secret's name long":    {kind: "ImagePolicy", patch: `spec: {imagePullSecrets: [{name: ` + long(254) + `}]}`, refused: "Too long"},

	"imgp shortest interval":             {kind: "ImagePolicy", patch: `spec: {interval: 5s}`},
	"imgp longest interval":              {kind: "ImagePolicy", patch: `spec: {interval: 24h}`},
	"imgp interval mixed":                {kind: "ImagePolicy", patch: `spec: {interval: 1h30m5s10ms}`},
	"imgp interval too short":            {kind: "ImagePolicy", patch: `spec: {interval: 4s999ms}`, refused: "spec.interval must be between 5s and 24h"},
	"imgp interval too long":             {kind: "ImagePolicy", patch: `spec: {interval: 24h1s}`, refused: "spec.interval must be between 5s and 24h"},
	"imgp interval in days":              {kind: "ImagePolicy", patch: `spec: {interval: 1d}`, refused: `spec.interval: Invalid value: "1d": must be a duration: one to four`},
	"imgp interval fraction":             {kind: "ImagePolicy", patch: `spec: {interval: 1.5h}`, refused: "spec.interval"},
	"imgp interval negative":             {kind: "ImagePolicy", patch: `spec: {interval: -5s}`, refused: "spec.interval"},
	"imgp interval empty":                {kind: "ImagePolicy", patch: `spec: {interval: ""}`, refused: "spec.interval"},
	"imgp interval a number":             {kind: "ImagePolicy", patch: `spec: {interval: 5}`, refused: "spec.interval"},
	"imgp interval in microseconds":      {kind: "ImagePolicy", patch: `spec: {interval: 5000000us}`, refused: "spec.interval"},
	"imgp interval, too many characters": {kind: "ImagePolicy", patch: `spec: {interval: 1h00001m00001s0001ms}`, refused: "spec.interval: Too long"},
	"imgp untagged Keep":                 {kind: "ImagePolicy", patch: `spec: {untagged: Keep}`},
	"imgp untagged Withdraw":             {kind: "ImagePolicy", patch: `spec: {untagged: Withdraw}`},
	"imgp untagged unknown":              {kind: "ImagePolicy", patch: `spec: {untagged: Delete}`, refused: "spec.untagged"},
	"imgp minAge minimum":                {kind: "ImagePolicy", patch: `spec: {minAge: 1s}`},
	"imgp minAge maximum":                {kind: "ImagePolicy", patch: `spec: {minAge: 720h, source: {registry: {}}}`},
	"imgp minAge in days":                {kind: "ImagePolicy", patch: `spec: {minAge: 1d}`, refused: `spec.minAge: Invalid value: "1d": must be a duration: one to four`},
	"imgp minAge too short":              {kind: "ImagePolicy", patch: `spec: {minAge: 999ms}`, refused: "spec.minAge must be between 1s and 720h"},
	"imgp minAge too long":               {kind: "ImagePolicy", patch: `spec: {minAge: 720h1s}`, refused: "spec.minAge must be between 1s and 720h"},
	"imgp minAge with pinned source":     {kind: "ImagePolicy", patch: `spec: {minAge: 1h, source: {pinned: {versions: [1.0.0]}}}`, refused: "spec.minAge must not be set with spec.source.pinned"},
	"imgp shortest timeout":              {kind: "ImagePolicy", patch: `spec: {timeout: 1s}`},
	"imgp longest timeout":               {kind: "ImagePolicy", patch: `spec: {timeout: 2m}`},
	"imgp timeout too short":             {kind: "ImagePolicy", patch: `spec: {timeout: 999ms}`, refused: "spec.timeout must be between 1s and 2m"},
	"imgp timeout too long":              {kind: "ImagePolicy", patch: `spec: {timeout: 2m1s}`, refused: "spec.timeout must be between 1s and 2m"},

	"imgp source registry":        {kind: "ImagePolicy", patch: `spec: {source: {registry: {}}}`},
	"imgp source pinned":          {kind: "ImagePolicy", patch: `spec: {source: {pinned: {versions: [1.0.0]}}}`},
	"imgp source empty":           {kind: "ImagePolicy", patch: `spec: {source: {}}`, refused: "spec.source: set exactly one of registry, pinned and github"},
	"imgp two sources":            {kind: "ImagePolicy", patch: `spec: {source: {registry: {}, pinned: {versions: [1.0.0]}}}`, refused: "set exactly one of registry, pinned and github"},
	"imgp pinned without a tag":   {kind: "ImagePolicy", patch: `spec: {source: {pinned: {versions: []}}}`, refused: "spec.source.pinned.versions"},
	"imgp too many pinned tags":   {kind: "ImagePolicy", patch: `spec: {source: {pinned: {versions: ` + numbered(`v#`, 101) + `}}}`, refused: "spec.source.pinned.versions: Too many"},
	"imgp pinned twice":           {kind: "ImagePolicy", patch: `spec: {source: {pinned: {versions: [a, a]}}}`, refused: "Duplicate value"},
	"imgp pinned tag with a plus": {kind: "ImagePolicy", patch: `spec: {source: {pinned: {versions: ["1.0.0+a"]}}}`, refused: "for build metadata, write 1.2.3_build"},

	"imgp tag filter":                       {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: "^v(?P<version>.+)$", extract: $version, exclude: ["-rc"]}}`},
	"imgp extract without pattern":          {kind: "ImagePolicy", patch: `spec: {tagFilter: {extract: $version}}`, refused: "spec.tagFilter.extract requires spec.tagFilter.pattern"},
	"imgp pattern empty":                    {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: ""}}`, refused: "spec.tagFilter.pattern"},
	"imgp pattern too long":                 {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: ` + long(513) + `}}`, refused: "spec.tagFilter.pattern: Too long"},
	"imgp extract empty":                    {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: a, extract: ""}}`, refused: "spec.tagFilter.extract"},
	"imgp extract too long":                 {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: a, extract: ` + long(257) + `}}`, refused: "spec.tagFilter.extract: Too long"},
	"imgp too many exclusions":              {kind: "ImagePolicy", patch: `spec: {tagFilter: {exclude: ` + repeat("a", 17) + `}}`, refused: "spec.tagFilter.exclude: Too many"},
	"imgp exclusion empty":                  {kind: "ImagePolicy", patch: `spec: {tagFilter: {exclude: [""]}}`, refused: "spec.tagFilter.exclude[0]"},
	"imgp level candidate":                  {kind: "ImagePolicy", patch: `spec: {versioning: {level: Candidate}}`},
	"imgp level preview":                    {kind: "ImagePolicy", patch: `spec: {versioning: {level: Preview}}`, refused: `spec.versioning.level: Unsupported value: "Preview"`},
	"imgp level in lower case":              {kind: "ImagePolicy", patch: `spec: {versioning: {level: release}}`, refused: "spec.versioning.level"},
	"imgp range":                            {kind: "ImagePolicy", patch: `spec: {versioning: {range: ">=1.0.0 <2.0.0"}}`},
	"imgp range empty":                      {kind: "ImagePolicy", patch: `spec: {versioning: {range: ""}}`, refused: "spec.versioning.range"},
	"imgp range too long":                   {kind: "ImagePolicy", patch: `spec: {versioning: {range: ` + long(257) + `}}`, refused: "spec.versioning.range: Too long"},
	"imgp group by minor":                   {kind: "ImagePolicy", patch: `spec: {versioning: {groupBy: Minor}}`},
	"imgp group by branch":                  {kind: "ImagePolicy", patch: `spec: {versioning: {groupBy: Branch}}`, refused: `supported values: "All", "Major", "Minor", "Patch"`},
	"imgp scheme tuple":                     {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple}}`},
	"imgp scheme tuple, fewest parts":       {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 1, suffix: -slim}}`},
	"imgp scheme tuple, most parts":         {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 6, groupBy: Patch}}`},
	"imgp scheme tuple, no part":            {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 0}}`, refused: "spec.versioning.parts"},
	"imgp scheme tuple, many parts":         {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 7}}`, refused: "spec.versioning.parts"},
	"imgp scheme tuple, two parts":          {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, twoParts: Allow}}`, refused: "spec.versioning.twoParts requires versioning.scheme SemVer"},
	"imgp scheme tuple, candidate":          {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, level: Candidate}}`, refused: "spec.versioning.level must be Release with versioning.scheme Tuple"},
	"imgp scheme tuple, by major":           {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 2, groupBy: Major}}`},
	"imgp scheme tuple, by major, one part": {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 1, groupBy: Major}}`, refused: "spec.versioning.groupBy: Major requires versioning.parts to be at least 2"},
	"imgp scheme tuple, by minor":           {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Tuple, parts: 2, groupBy: Minor}}`, refused: "Minor and Patch require at least 3"},
	"imgp scheme semver, parts":             {kind: "ImagePolicy", patch: `spec: {versioning: {parts: 3}}`, refused: "spec.versioning.parts requires versioning.scheme Tuple"},
	"imgp scheme regexp":                    {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: "(?P<major>1)"}, versioning: {scheme: Regexp, level: Candidate}}`},
	"imgp scheme regexp, no pattern":        {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: Regexp}}`, refused: "spec.versioning.scheme Regexp reads the groups"},
	"imgp scheme regexp, exclusions":        {kind: "ImagePolicy", patch: `spec: {tagFilter: {exclude: [a]}, versioning: {scheme: Regexp}}`, refused: "spec.versioning.scheme Regexp reads the groups"},
	"imgp scheme regexp with extract":       {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: "(?P<major>1)", extract: $major}, versioning: {scheme: Regexp}}`, refused: "omit tagFilter.extract"},
	"imgp scheme regexp with suffix":        {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: "(?P<major>1)"}, versioning: {scheme: Regexp, suffix: -a}}`, refused: "spec.versioning.suffix must not be set with versioning.scheme Regexp"},
	"imgp scheme push time":                 {kind: "ImagePolicy", patch: `spec: {source: {registry: {}}, tagFilter: {pattern: ^sha-}, versioning: {scheme: PushTime, groupBy: Minor, range: ">=2026.1.0"}}`},
	"imgp scheme push time, pinned":         {kind: "ImagePolicy", patch: `spec: {source: {pinned: {versions: [a]}}, versioning: {scheme: PushTime}}`, refused: "omit spec.source and tagFilter.extract"},
	"imgp scheme push time, github":         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: a}, tags: {}}}, versioning: {scheme: PushTime}}`, refused: "omit spec.source and tagFilter.extract"},
	"imgp scheme push time, extract":        {kind: "ImagePolicy", patch: `spec: {tagFilter: {pattern: (a), extract: $1}, versioning: {scheme: PushTime}}`, refused: "omit spec.source and tagFilter.extract"},
	"imgp scheme push time, suffix":         {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: PushTime, suffix: -a}}`, refused: "spec.versioning.suffix must not be set with versioning.scheme Regexp or PushTime"},
	"imgp scheme push time, level":          {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: PushTime, level: Candidate}}`, refused: "spec.versioning.level must be Release with versioning.scheme Tuple or PushTime"},
	"imgp scheme push time, parts":          {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: PushTime, parts: 6}}`, refused: "spec.versioning.parts requires versioning.scheme Tuple"},
	"imgp scheme push time, 2 parts":        {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: PushTime, twoParts: Allow}}`, refused: "spec.versioning.twoParts requires versioning.scheme SemVer"},
	"imgp scheme unknown":                   {kind: "ImagePolicy", patch: `spec: {versioning: {scheme: CalVer}}`, refused: `supported values: "SemVer", "Tuple", "Regexp"`},
	"imgp suffix":                           {kind: "ImagePolicy", patch: `spec: {versioning: {suffix: -alpine3.19}}`},
	"imgp suffix without a hyphen":          {kind: "ImagePolicy", patch: `spec: {versioning: {suffix: alpine}}`, refused: "-alpine, not alpine"},
	"imgp suffix with a plus":               {kind: "ImagePolicy", patch: `spec: {versioning: {suffix: -a+b}}`, refused: "spec.versioning.suffix"},
	"imgp suffix too long":                  {kind: "ImagePolicy", patch: `spec: {versioning: {suffix: ` + long(65) + `}}`, refused: "spec.versioning.suffix: Too long"},
	"imgp two parts allowed":                {kind: "ImagePolicy", patch: `spec: {versioning: {twoParts: Allow}}`},
	"imgp two parts true":                   {kind: "ImagePolicy", patch: `spec: {versioning: {twoParts: "true"}}`, refused: "spec.versioning.twoParts"},
	"imgp deny":                             {kind: "ImagePolicy", patch: `spec: {deny: [1.2.3, ">=1.3.0 <1.3.4"]}`},
	"imgp deny, too many entries":           {kind: "ImagePolicy", patch: `spec: {deny: ` + numbered("v#", 65) + `}`, refused: "spec.deny: Too many"},
	"imgp deny, empty entry":                {kind: "ImagePolicy", patch: `spec: {deny: [""]}`, refused: "spec.deny[0]"},
	"imgp deny, entry too long":             {kind: "ImagePolicy", patch: `spec: {deny: [` + long(129) + `]}`, refused: "spec.deny[0]: Too long"},
	"imgp platforms":                        {kind: "ImagePolicy", patch: `spec: {platforms: [linux/amd64, linux/arm64/v8]}`},
	"imgp platform without a system":        {kind: "ImagePolicy", patch: `spec: {platforms: [amd64]}`, refused: "write the operating system and the architecture in lower case"},
	"imgp too many platforms":               {kind: "ImagePolicy", patch: `spec: {platforms: ` + numbered("linux/#", 9) + `}`, refused: "spec.platforms: Too many"},

	"imgp limits":                   {kind: "ImagePolicy", patch: `spec: {limits: {groups: 256, releasesPerGroup: 2, tags: 100000}}`},
	"imgp limits product":           {kind: "ImagePolicy", patch: `spec: {limits: {groups: 52}}`, refused: "spec.limits: groups * releasesPerGroup must be at most 512"},
	"imgp limits product, both set": {kind: "ImagePolicy", patch: `spec: {limits: {groups: 8, releasesPerGroup: 65}}`, refused: "must be at most 512"},
	"imgp groups too few":           {kind: "ImagePolicy", patch: `spec: {limits: {groups: 0}}`, refused: "spec.limits.groups"},
	"imgp groups too many":          {kind: "ImagePolicy", patch: `spec: {limits: {groups: 257, releasesPerGroup: 1}}`, refused: "spec.limits.groups"},
	"imgp releases too few":         {kind: "ImagePolicy", patch: `spec: {limits: {releasesPerGroup: 0}}`, refused: "spec.limits.releasesPerGroup"},
	"imgp releases too many":        {kind: "ImagePolicy", patch: `spec: {limits: {groups: 1, releasesPerGroup: 101}}`, refused: "spec.limits.releasesPerGroup"},
	"imgp tags too few":             {kind: "ImagePolicy", patch: `spec: {limits: {tags: 0}}`, refused: "spec.limits.tags"},
	"imgp tags too many":            {kind: "ImagePolicy", patch: `spec: {limits: {tags: 100001}}`, refused: "spec.limits.tags"},
	"imgp unknown field":            {kind: "ImagePolicy", patch: `spec: {imgae: shop}`, refused: `unknown field "spec.imgae"`},
}

var microserviceRows = map[string]row{
	"msvc smallest":                                   {kind: "Microservice"},
	"msvc name of 40 characters":                      {kind: "Microservice", patch: `metadata: {name: ` + long(40) + `}`},
	"msvc name of 41 characters":                      {kind: "Microservice", patch: `metadata: {name: ` + long(41) + `}`, refused: "metadata.name must start with a letter"},
	"msvc name starts with a digit":                   {kind: "Microservice", patch: `metadata: {name: 1shop}`, refused: "metadata.name must start with a letter"},
	"msvc name with a dot":                            {kind: "Microservice", patch: `metadata: {name: my.shop}`, refused: "metadata.name must start with a letter"},
	"msvc without a policy":                           {kind: "Microservice", patch: `spec: {imagePolicyRef: null}`, refused: "spec.imagePolicyRef: Required value"},
	"msvc policy without a name":                      {kind: "Microservice", patch: `spec: {imagePolicyRef: {name: ""}}`, refused: "spec.imagePolicyRef.name"},
	"msvc without a template":                         {kind: "Microservice", patch: `spec: {template: null}`, refused: "spec.template: Required value"},
	"msvc typo in the template":                       {kind: "Microservice", patch: `spec: {template: {spec: {contianers: []}}}`, refused: `unknown field "spec.template.spec.contianers"`},
	"msvc containers, 65":                             {kind: "Microservice", patch: `spec: {containerName: caa, template: {spec: {containers: ` + numbered(`{name: c#}`, 65) + `}}}`, refused: "spec.template.spec.containers: Too many"},
	"msvc container's name too long":                  {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: ` + long(64) + `}]}}}`, refused: "spec.template.spec.containers[0].name: Too long"},
	"msvc quantities":                                 {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: web, resources: {limits: {cpu: 500m, memory: 1.5Gi, "example.com/a": 1e3, "example.com/b": 2}}}]}}}`},
	"msvc quantity with a large exponent":             {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: web, resources: {limits: {cpu: "1.1e20000000"}}}]}}}`, refused: "spec.template.spec.containers[0].resources.limits.cpu in body should match"},
	"msvc quantity too long":                          {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: web, resources: {limits: {cpu: "1.0000000000000000000000000000000001"}}}]}}}`, refused: "spec.template.spec.containers[0].resources.limits.cpu: Too long"},
	"msvc only container":                             {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: web}]}}}`},
	"msvc one of several named like the Microservice": {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: proxy}, {name: shop}]}}}`},
	"msvc several containers":                         {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: proxy}, {name: web}]}}}`, refused: "spec.containerName is required"},
	"msvc several containers, one named":              {kind: "Microservice", patch: `spec: {containerName: web, template: {spec: {containers: [{name: proxy}, {name: web}]}}}`},
	"msvc second container added":                     {kind: "Microservice", update: true, from: `spec: {template: {spec: {containers: [{name: web}]}}}`, patch: `spec: {template: {spec: {containers: [{name: web}, {name: proxy}]}}}`, refused: "spec.containerName is required"},
	"msvc containerName removed":                      {kind: "Microservice", update: true, from: `spec: {containerName: web, template: {spec: {containers: [{name: proxy}, {name: web}]}}}`, patch: `spec: {containerName: null}`, refused: "spec.containerName is required"},
	"msvc typo in a container":                        {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, imagee: a}]}}}`, refused: `unknown field "spec.template.spec.containers[0].imagee"`},
	"msvc typo in the template's meta":                {kind: "Microservice", patch: `spec: {template: {metadata: {lables: {a: b}}}}`, refused: `unknown field "spec.template.metadata.lables"`},
	"msvc typo in a step":                             {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, puase: {}}]}}}`, refused: `unknown field "spec.updateStrategy.canary.steps[0].puase"`},
	"msvc typo at the top":                            {kind: "Microservice", patch: `{spce: {}}`, refused: `unknown field "spce"`},
	"msvc one port with two protocols":                {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]}]}}}`},
	"msvc container name":                             {kind: "Microservice", patch: `spec: {containerName: shop}`},
	"msvc container name empty":                       {kind: "Microservice", patch: `spec: {containerName: ""}`, refused: "spec.containerName"},
	"msvc container name too long":                    {kind: "Microservice", patch: `spec: {containerName: ` + long(64) + `}`, refused: "spec.containerName: Too long"},

	"msvc replicas":                                      {kind: "Microservice", patch: `spec: {availability: {replicas: 1000}}`},
	"msvc no replicas":                                   {kind: "Microservice", patch: `spec: {availability: {replicas: 0}}`, refused: "spec.availability.replicas"},
	"msvc too many replicas":                             {kind: "Microservice", patch: `spec: {availability: {replicas: 1001}}`, refused: "spec.availability.replicas"},
	"msvc minAvailable":                                  {kind: "Microservice", patch: `spec: {availability: {minAvailable: 50%}}`},
	"msvc minAvailable a number":                         {kind: "Microservice", patch: `spec: {availability: {minAvailable: 1}}`},
	"msvc minAvailable negative":                         {kind: "Microservice", patch: `spec: {availability: {minAvailable: -1}}`, refused: "spec.availability.minAvailable must be"},
	"msvc minAvailable a word":                           {kind: "Microservice", patch: `spec: {availability: {minAvailable: most}}`, refused: "spec.availability.minAvailable must be"},
	"msvc maxUnavailable":                                {kind: "Microservice", patch: `spec: {availability: {maxUnavailable: 0}}`},
	"msvc maxUnavailable of 101 percent":                 {kind: "Microservice", patch: `spec: {availability: {maxUnavailable: 101%}}`, refused: "spec.availability.maxUnavailable must be"},
	"msvc both budgets":                                  {kind: "Microservice", patch: `spec: {availability: {minAvailable: 1, maxUnavailable: 1}}`, refused: "spec.availability: set at most one of minAvailable and maxUnavailable"},
	"msvc minReadySeconds":                               {kind: "Microservice", patch: `spec: {availability: {minReadySeconds: 0}}`},
	"msvc minReadySeconds negative":                      {kind: "Microservice", patch: `spec: {availability: {minReadySeconds: -1}}`, refused: "spec.availability.minReadySeconds"},
	"msvc minReadySeconds too long":                      {kind: "Microservice", patch: `spec: {availability: {minReadySeconds: 3601}}`, refused: "spec.availability.minReadySeconds"},
	"msvc standby full":                                  {kind: "Microservice", patch: `spec: {availability: {standbyReplicas: Full}}`},
	"msvc standby none":                                  {kind: "Microservice", patch: `spec: {availability: {standbyReplicas: 0}}`},
	"msvc standby a percentage":                          {kind: "Microservice", patch: `spec: {availability: {standbyReplicas: 50%}}`, refused: "spec.availability.standbyReplicas must be a number from 0 to 1000 or Full"},
	"msvc standby negative":                              {kind: "Microservice", patch: `spec: {availability: {standbyReplicas: -1}}`, refused: "spec.availability.standbyReplicas"},
	"msvc latest":                                        {kind: "Microservice", patch: `spec: {updateStrategy: {latest: {}}}`},
	"msvc minimumAvailable":                              {kind: "Microservice", patch: `spec: {updateStrategy: {minimumAvailable: 10}}`},
	"msvc minimumAvailable none":                         {kind: "Microservice", patch: `spec: {updateStrategy: {minimumAvailable: 0}}`, refused: "spec.updateStrategy.minimumAvailable"},
	"msvc minimumAvailable too many":                     {kind: "Microservice", patch: `spec: {updateStrategy: {minimumAvailable: 11}}`, refused: "spec.updateStrategy.minimumAvailable"},
	"msvc minReadySeconds equal to the default deadline": {kind: "Microservice", patch: `spec: {availability: {minReadySeconds: 600}}`, refused: "spec.availability.minReadySeconds must be less than"},
	"msvc minReadySeconds equal to the deadline":         {kind: "Microservice", patch: `spec: {availability: {minReadySeconds: 30}, updateStrategy: {progressDeadlineSeconds: 30}}`, refused: "spec.availability.minReadySeconds must be less than"},
	"msvc minReadySeconds below the deadline":            {kind: "Microservice", patch: `spec: {availability: {minReadySeconds: 3600}, updateStrategy: {progressDeadlineSeconds: 3601}}`},
	"msvc probe of a port beyond int32":                  {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, livenessProbe: {httpGet: {port: 3000000000}}}]}}}`, refused: "livenessProbe.httpGet.port"},
	"msvc probe of a port beyond 65535":                  {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, livenessProbe: {httpGet: {port: 65536}}}]}}}`, refused: "livenessProbe.httpGet.port"},
	"msvc probe of port 0":                               {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, livenessProbe: {httpGet: {port: 0}}}]}}}`, refused: "livenessProbe.httpGet.port"},
	"msvc probe of a long port name":                     {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, livenessProbe: {httpGet: {port: abcdefghijklmnop}}}]}}}`, refused: "livenessProbe.httpGet.port"},
	"msvc probe of a port by name":                       {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, livenessProbe: {httpGet: {port: http}}}]}}}`},
	"msvc probe of the last port":                        {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, livenessProbe: {httpGet: {port: 65535}}}]}}}`},
	"msvc deadline too short":                            {kind: "Microservice", patch: `spec: {updateStrategy: {progressDeadlineSeconds: 9}}`, refused: "spec.updateStrategy.progressDeadlineSeconds"},
	"msvc deadline too long":                             {kind: "Microservice", patch: `spec: {updateStrategy: {progressDeadlineSeconds: 86401}}`, refused: "spec.updateStrategy.progressDeadlineSeconds"},
	"msvc drain delay":                                   {kind: "Microservice", patch: `spec: {updateStrategy: {drainDelay: 0s}}`},
	"msvc drain delay too long":                          {kind: "Microservice", patch: `spec: {updateStrategy: {drainDelay: 25h}}`, refused: "spec.updateStrategy.drainDelay must be at most 24h"},
	"msvc pin":                                           {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: 1.0.0}, configuration: Current, expireTime: "2030-01-01T00:00:00Z", reason: a freeze}}}`},
	"msvc pin of a group":                                {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: 1.x, version: 1.0.0, configuration: Retained, expireTime: "2030-01-01T00:00:00Z"}]}}}`},
	"msvc pin of nothing":                                {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {}}}`, refused: "spec.updateStrategy.manual: set at least one of semVer, release and groups"},
	"msvc pin with no groups":                            {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: []}}}`, refused: "spec.updateStrategy.manual: set at least one of semVer, release and groups"},
	"msvc pin without a version":                         {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {name: 1.x}}}}`, refused: "spec.updateStrategy.manual.semVer.version: Required value"},
	"msvc pin of a release":                              {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {release: shop-1-0-0-ef9d7563e6, reason: a freeze}}}`},
	"msvc pin of a release and version":                  {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {release: a, semVer: {version: 1.0.0}}}}`, refused: "release cannot be combined with semVer or configuration"},
	"msvc pin of a release, Current":                     {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {release: a, configuration: Current}}}`, refused: "release cannot be combined with semVer or configuration"},
	"msvc pin's release too long":                        {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {release: ` + long(64) + `}}}`, refused: "spec.updateStrategy.manual.release: Too long"},
	"msvc group pinned to a release":                     {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: 1.x, release: a}]}}}`},
	"msvc group pin's release too long":                  {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, release: ` + long(64) + `}]}}}`, refused: "spec.updateStrategy.manual.groups[0].release: Too long"},
	"msvc group pin's release empty":                     {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, release: ""}]}}}`, refused: "spec.updateStrategy.manual.groups[0].release"},
	"msvc pin's release empty":                           {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {release: ""}}}`, refused: "spec.updateStrategy.manual.release"},
	"msvc group pin, release and version":                {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: 1.x, release: a, version: 1.0.0}]}}}`, refused: "set exactly one of version and release"},
	"msvc group pinned to nothing":                       {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: 1.x}]}}}`, refused: "set exactly one of version and release"},
	"msvc group pinned to a release, Retained":           {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: 1.x, release: a, configuration: Retained}]}}}`, refused: "release cannot be combined with configuration"},
	"msvc ended groups":                                  {kind: "Microservice", patch: `spec: {endedGroups: [1.x, "7"]}`},
	"msvc ended group twice":                             {kind: "Microservice", patch: `spec: {endedGroups: [1.x, 1.x]}`, refused: "Duplicate value"},
	"msvc ended group empty":                             {kind: "Microservice", patch: `spec: {endedGroups: [""]}`, refused: "spec.endedGroups[0]"},
	"msvc too many ended groups":                         {kind: "Microservice", patch: `spec: {endedGroups: ` + numbered(`g#`, 33) + `}`, refused: "spec.endedGroups: Too many"},
	"msvc pin with an author":                            {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {name: ana, pinned: a}, groups: [{name: b, version: a, author: {name: ana, pinned: a}}]}}}`},
	"msvc pin, author without a name":                    {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {pinned: a}}}}`, refused: "spec.updateStrategy.manual.author.name: Required value"},
	"msvc pin, author without a choice":                  {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {name: ana}}}}`, refused: "spec.updateStrategy.manual.author.pinned: Required value"},
	"msvc pin, name of the author empty":                 {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {name: "", pinned: a}}}}`, refused: "spec.updateStrategy.manual.author.name"},
	"msvc pin, name of the author too long":              {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {name: ` + long(254) + `, pinned: a}}}}`, refused: "spec.updateStrategy.manual.author.name"},
	"msvc pin, choice of the author empty":               {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {name: ana, pinned: ""}}}}`, refused: "spec.updateStrategy.manual.author.pinned"},
	"msvc pin, choice of the author too long":            {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, author: {name: ana, pinned: ` + long(129) + `}}}}`, refused: "spec.updateStrategy.manual.author.pinned"},
	"msvc pin of a group, author without a name":         {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: b, version: a, author: {pinned: a}}]}}}`, refused: "spec.updateStrategy.manual.groups[0].author.name: Required value"},
	"msvc pin of a group, author without a choice":       {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: b, version: a, author: {name: ana}}]}}}`, refused: "spec.updateStrategy.manual.groups[0].author.pinned: Required value"},
	"msvc pin of a group, name of the author empty":      {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: b, version: a, author: {name: "", pinned: a}}]}}}`, refused: "spec.updateStrategy.manual.groups[0].author.name"},
	"msvc pin of a group, name of the author too long":   {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: b, version: a, author: {name: ` + long(254) + `, pinned: a}}]}}}`, refused: "spec.updateStrategy.manual.groups[0].author.name"},
	"msvc pin of a group, choice of the author empty":    {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: b, version: a, author: {name: ana, pinned: ""}}]}}}`, refused: "spec.updateStrategy.manual.groups[0].author.pinned"},
	"msvc pin of a group, choice of the author too long": {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: b, version: a, author: {name: ana, pinned: ` + long(129) + `}}]}}}`, refused: "spec.updateStrategy.manual.groups[0].author.pinned"},
	"msvc pin's version empty":                           {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: ""}}}}`, refused: "spec.updateStrategy.manual.semVer.version"},
	"msvc pin's stream too long":                         {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a, name: ` + long(254) + `}}}}`, refused: "spec.updateStrategy.manual.semVer.name"},
	"msvc pin's configuration":                           {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, configuration: Old}}}`, refused: "spec.updateStrategy.manual.configuration"},
	"msvc pin's end not a time":                          {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, expireTime: tomorrow}}}`, refused: "spec.updateStrategy.manual.expireTime"},
	"msvc pin's end in lower case":                       {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, expireTime: "2030-01-01t00:00:00z"}}}`, refused: "spec.updateStrategy.manual.expireTime"},
	"msvc pin's end with an offset of 99 hours":          {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, expireTime: "2030-01-01T00:00:00+99:99"}}}`, refused: "spec.updateStrategy.manual.expireTime"},
	"msvc pin's end with text after it":                  {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, expireTime: "2030-01-01T00:00:00ZTx"}}}`, refused: "spec.updateStrategy.manual.expireTime"},
	"msvc pin's end with a fraction and an offset":       {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, expireTime: "2030-01-01T00:00:00.123456789+05:30"}}}`},
	"msvc pin's reason too long":                         {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {semVer: {version: a}, reason: ` + long(129) + `}}}`, refused: "spec.updateStrategy.manual.reason"},
	"msvc too many group pins":                           {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: ` + numbered(`{name: g#, version: a}`, 33) + `}}}`, refused: "spec.updateStrategy.manual.groups: Too many"},
	"msvc group pinned twice":                            {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, version: b}, {name: a, version: c}]}}}`, refused: "Duplicate value"},
	"msvc group pin without a name":                      {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: "", version: b}]}}}`, refused: "spec.updateStrategy.manual.groups[0].name"},
	"msvc group pin's version empty":                     {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, version: ""}]}}}`, refused: "spec.updateStrategy.manual.groups[0].version"},
	"msvc group pin's configuration":                     {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, version: b, configuration: Old}]}}}`, refused: "spec.updateStrategy.manual.groups[0].configuration"},
	"msvc group pin's end":                               {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, version: b, expireTime: never}]}}}`, refused: "spec.updateStrategy.manual.groups[0].expireTime"},
	"msvc group pin's end in lower case":                 {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, version: b, expireTime: "2030-01-01t00:00:00z"}]}}}`, refused: "spec.updateStrategy.manual.groups[0].expireTime"},
	"msvc group pin's reason":                            {kind: "Microservice", patch: `spec: {updateStrategy: {manual: {groups: [{name: a, version: b, reason: ` + long(129) + `}]}}}`, refused: "spec.updateStrategy.manual.groups[0].reason"},
	"msvc canary steps":                                  {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0, approval: {}}, {name: half, weight: 50, pause: {duration: 1h}}, {weight: 50}, {weight: 100}]}}}`},
	"msvc canary without steps":                          {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: []}}}`, refused: "spec.updateStrategy.canary.steps"},
	"msvc canary steps absent":                           {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {}}}`, refused: "spec.updateStrategy.canary.steps: Required value"},
	"msvc too many canary steps":                         {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: ` + repeat("{weight: 1}", 33) + `}}}`, refused: "spec.updateStrategy.canary.steps: Too many"},
	"msvc most canary steps":                             {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: ` + repeat("{weight: 1}", 32) + `}}}`},
	"msvc step names twice":                              {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{name: a, weight: 1}, {name: a, weight: 2}]}}}`, refused: "spec.updateStrategy.canary.steps: names must be unique"},
	"msvc weights fall":                                  {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 50}, {weight: 10}]}}}`, refused: "spec.updateStrategy.canary.steps: weights must not decrease"},
	"msvc step with pause and approval":                  {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, pause: {duration: 1s}, approval: {}}]}}}`, refused: "spec.updateStrategy.canary.steps: set at most one of pause and approval"},
	"msvc step with a number as its name":                {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{name: "1", weight: 1}]}}}`, refused: "the name of a step must consist of lowercase letters"},
	"msvc weight absent":                                 {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{name: a}]}}}`, refused: "spec.updateStrategy.canary.steps[0].weight: Required value"},
	"msvc weight negative":                               {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: -1}]}}}`, refused: "spec.updateStrategy.canary.steps[0].weight"},
	"msvc weight above a hundred":                        {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 101}]}}}`, refused: "spec.updateStrategy.canary.steps[0].weight"},
	"msvc pause too long":                                {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, pause: {duration: 721h}}]}}}`, refused: "pause.duration must be at most 720h"},
	"msvc approval by several":                           {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, approval: {count: 8, from: [sre, "oidc:shop owners"]}}]}}}`},
	"msvc approval by too many":                          {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, approval: {count: 9}}]}}}`, refused: "approval.count: Invalid value"},
	"msvc approval by too many groups":                   {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, approval: {from: ` + numbered("g#", 9) + `}}]}}}`, refused: "approval.from: Too many"},
	"msvc approval by a group twice":                     {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, approval: {from: [a, a]}}]}}}`, refused: "Duplicate value"},
	"msvc approval by an empty group":                    {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, approval: {from: [""]}}]}}}`, refused: "approval.from[0]"},
	"msvc pause without duration":                        {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 1, pause: {}}]}}}`, refused: "spec.updateStrategy.canary.steps[0].pause.duration: Required value"},
	"msvc paused":                                        {kind: "Microservice", patch: `spec: {paused: true}`},
	"msvc image pull policy in container":                {kind: "Microservice", patch: `spec: {template: {spec: {containers: [{name: shop, imagePullPolicy: Always}]}}}`},
}

var releaseRows = map[string]row{
	"vsvc smallest":                        {kind: "VersionedMicroservice"},
	"vsvc microservice absent":             {kind: "VersionedMicroservice", patch: `spec: {microserviceName: null}`, refused: "spec.microserviceName: Required value"},
	"vsvc microservice too long":           {kind: "VersionedMicroservice", patch: `spec: {microserviceName: ` + long(41) + `}`, refused: "spec.microserviceName: Too long"},
	"vsvc group empty":                     {kind: "VersionedMicroservice", patch: `spec: {group: ""}`, refused: "spec.group"},
	"vsvc group too long":                  {kind: "VersionedMicroservice", patch: `spec: {group: ` + long(64) + `}`, refused: "spec.group: Too long"},
	"vsvc version empty":                   {kind: "VersionedMicroservice", patch: `spec: {semVer: {version: ""}}`, refused: "spec.semVer.version"},
	"vsvc stream too long":                 {kind: "VersionedMicroservice", patch: `spec: {semVer: {name: ` + long(254) + `}}`, refused: "spec.semVer.name"},
	"vsvc without images":                  {kind: "VersionedMicroservice", patch: `spec: {images: []}`, refused: "spec.images"},
	"vsvc too many images":                 {kind: "VersionedMicroservice", patch: `spec: {images: ` + repeat(`{image: a, digest: b}`, 9) + `}`, refused: "spec.images: Too many"},
	"vsvc image empty":                     {kind: "VersionedMicroservice", patch: `spec: {images: [{image: "", digest: b}]}`, refused: "spec.images[0].image"},
	"vsvc digest empty":                    {kind: "VersionedMicroservice", patch: `spec: {images: [{image: a, digest: ""}]}`, refused: "spec.images[0].digest"},
	"vsvc no replicas":                     {kind: "VersionedMicroservice", patch: `spec: {replicas: 0}`},
	"vsvc replicas absent":                 {kind: "VersionedMicroservice", patch: `spec: {replicas: null}`, refused: "spec.replicas: Required value"},
	"vsvc replicas negative":               {kind: "VersionedMicroservice", patch: `spec: {replicas: -1}`, refused: "spec.replicas"},
	"vsvc too many replicas":               {kind: "VersionedMicroservice", patch: `spec: {replicas: 1001}`, refused: "spec.replicas"},
	"vsvc minReadySeconds negative":        {kind: "VersionedMicroservice", patch: `spec: {availability: {minReadySeconds: -1}}`, refused: "spec.availability.minReadySeconds"},
	"vsvc budget":                          {kind: "VersionedMicroservice", patch: `spec: {availability: {minReadySeconds: 10, disruptionBudget: {maxUnavailable: 1}}}`},
	"vsvc budget as a percentage":          {kind: "VersionedMicroservice", patch: `spec: {availability: {disruptionBudget: {minAvailable: 50%}}}`},
	"vsvc budget empty":                    {kind: "VersionedMicroservice", patch: `spec: {availability: {disruptionBudget: {}}}`, refused: "disruptionBudget: set exactly one"},
	"vsvc budget with both":                {kind: "VersionedMicroservice", patch: `spec: {availability: {disruptionBudget: {minAvailable: 1, maxUnavailable: 1}}}`, refused: "disruptionBudget: set exactly one"},
	"vsvc budget min a word":               {kind: "VersionedMicroservice", patch: `spec: {availability: {disruptionBudget: {minAvailable: x}}}`, refused: "disruptionBudget.minAvailable must be"},
	"vsvc budget max negative":             {kind: "VersionedMicroservice", patch: `spec: {availability: {disruptionBudget: {maxUnavailable: -1}}}`, refused: "disruptionBudget.maxUnavailable must be"},
	"vsvc typo in the template":            {kind: "VersionedMicroservice", patch: `spec: {template: {spec: {hostPIDD: true}}}`, refused: `unknown field "spec.template.spec.hostPIDD"`},
	"vsvc decision":                        {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: a, reason: it is good}}`},
	"vsvc decision continue":               {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Continue, id: a, step: "1"}}`},
	"vsvc continue without a step":         {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Continue, id: a}}`, refused: "spec.decision.step is required with action Continue"},
	"vsvc adopt with a step":               {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: a, step: b}}`, refused: "spec.decision.step is required with action Continue"},
	"vsvc decision with a group":           {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: a, groups: [sre]}}`},
	"vsvc decision with too many groups":   {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: a, groups: ` + numbered("g#", 9) + `}}`, refused: "spec.decision.groups: Too many"},
	"vsvc decision with a long group":      {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: a, groups: [` + long(254) + `]}}`, refused: "spec.decision.groups[0]"},
	"vsvc decision unknown":                {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Abort, id: a}}`, refused: `supported values: "Continue", "Adopt", "Deprecate", "Retry"`},
	"vsvc decision without id":             {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: ""}}`, refused: "spec.decision.id"},
	"vsvc decision's step empty":           {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Continue, id: a, step: ""}}`, refused: "spec.decision.step"},
	"vsvc decision's step, invisible name": {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Continue, id: a, step: "\u200b"}}`, refused: "step must be the name of a canary step, or its number, counted from 1"},
	"vsvc decision's reason too long":      {kind: "VersionedMicroservice", patch: `spec: {decision: {action: Adopt, id: a, reason: ` + long(257) + `}}`, refused: "spec.decision.reason"},

	"vsvc scaled":                  {kind: "VersionedMicroservice", update: true, patch: `spec: {replicas: 3}`},
	"vsvc budget added":            {kind: "VersionedMicroservice", update: true, patch: `spec: {availability: {disruptionBudget: {maxUnavailable: 1}}}`},
	"vsvc decided":                 {kind: "VersionedMicroservice", update: true, patch: `spec: {decision: {action: Retry, id: a}}`},
	"vsvc microservice changed":    {kind: "VersionedMicroservice", update: true, patch: `spec: {microserviceName: other}`, refused: "spec.microserviceName is immutable"},
	"vsvc group changed":           {kind: "VersionedMicroservice", update: true, patch: `spec: {group: 2-x}`, refused: "spec.group is immutable"},
	"vsvc version changed":         {kind: "VersionedMicroservice", update: true, patch: `spec: {semVer: {version: 1.0.1}}`, refused: "spec.semVer is immutable"},
	"vsvc image changed":           {kind: "VersionedMicroservice", update: true, patch: `spec: {images: [{image: other, digest: "sha256:0"}]}`, refused: "spec.images is immutable"},
	"vsvc image added":             {kind: "VersionedMicroservice", update: true, patch: `spec: {images: ` + repeat(`{image: "registry.example.com/shop:1.0.0@sha256:0", digest: "sha256:0"}`, 2) + `}`, refused: "spec.images is immutable"},
	"vsvc label added":             {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {metadata: {labels: {a: b}}}}`, refused: "spec.template is immutable"},
	"vsvc container image changed": {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {containers: [{name: shop, image: evil}]}}}`, refused: "spec.template is immutable"},
	// These rows replace one key with another. A comparison that does not know the fields would accept these changes.
	"vsvc host PID swapped in":      {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {restartPolicy: null, hostPID: true}}}`, refused: "spec.template is immutable"},
	"vsvc privileged swapped in":    {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {containers: [{name: shop, securityContext: {privileged: true}}]}}}`, refused: "spec.template is immutable"},
	"vsvc volume swapped in":        {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {restartPolicy: null, volumes: [{name: a, hostPath: {path: /}}]}}}`, refused: "spec.template is immutable"},
	"vsvc container added":          {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {containers: [{name: shop, image: "registry.example.com/shop:1.0.0"}, {name: evil, image: evil}]}}}`, refused: "spec.template is immutable"},
	"vsvc init container swapped":   {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {restartPolicy: null, initContainers: [{name: a, image: b}]}}}`, refused: "spec.template is immutable"},
	"vsvc service account swapped":  {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {restartPolicy: null, serviceAccountName: admin}}}`, refused: "spec.template is immutable"},
	"vsvc template's field dropped": {kind: "VersionedMicroservice", update: true, patch: `spec: {template: {spec: {restartPolicy: null}}}`, refused: "spec.template is immutable"},
}

var networkPolicyRows = map[string]row{
	"hnp smallest":                            {kind: "NetworkPolicy"},
	"hnp services only":                       {kind: "NetworkPolicy", patch: `spec: {provider: null}`},
	"hnp name of 40 characters":               {kind: "NetworkPolicy", patch: `metadata: {name: ` + long(40) + `}`},
	"hnp name of 41 characters":               {kind: "NetworkPolicy", patch: `metadata: {name: ` + long(41) + `}`, refused: "metadata.name must start with a letter"},
	"hnp microservice":                        {kind: "NetworkPolicy", patch: `spec: {microserviceRef: {name: other}}`},
	"hnp microservice without name":           {kind: "NetworkPolicy", patch: `spec: {microserviceRef: {}}`, refused: "spec.microserviceRef.name: Required value"},
	"hnp microservice's name empty":           {kind: "NetworkPolicy", patch: `spec: {microserviceRef: {name: ""}}`, refused: "spec.microserviceRef.name"},
	"hnp without ports":                       {kind: "NetworkPolicy", patch: `spec: {ports: []}`, refused: "spec.ports"},
	"hnp ports absent":                        {kind: "NetworkPolicy", patch: `spec: {ports: null}`, refused: "spec.ports: Required value"},
	"hnp port number twice":                   {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80}, {name: b, port: 80, protocol: TCP}]}`, refused: "spec.ports: each port number may be used once"},
	"hnp port number over UDP too":            {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 53, protocol: TCP}, {name: b, port: 53, protocol: UDP}]}`},
	"hnp port name twice":                     {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80}, {name: a, port: 81}]}`, refused: "Duplicate value"},
	"hnp port name in upper case":             {kind: "NetworkPolicy", patch: `spec: {ports: [{name: HTTP, port: 80}]}`, refused: "spec.ports[0].name"},
	"hnp port name with a trailing hyphen":    {kind: "NetworkPolicy", patch: `spec: {ports: [{name: http-, port: 80}]}`, refused: "spec.ports[].name must consist of lowercase letters, digits and '-', and must start and end with a letter or digit"},
	"hnp port zero":                           {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 0}]}`, refused: "spec.ports[0].port"},
	"hnp port too high":                       {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 65536}]}`, refused: "spec.ports[0].port"},
	"hnp target by number":                    {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: 8080}]}`},
	"hnp target by name":                      {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: http-alt}]}`},
	"hnp target zero":                         {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: 0}]}`, refused: "spec.ports[].targetPort must be"},
	"hnp target without a letter":             {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: "8080"}]}`, refused: "spec.ports[].targetPort must be"},
	"hnp target's name in upper case":         {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: HTTP}]}`, refused: "spec.ports[].targetPort must be"},
	"hnp target's name with an underscore":    {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: web_admin}]}`, refused: "spec.ports[].targetPort must be"},
	"hnp target's name with two hyphens":      {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: a--b}]}`, refused: "spec.ports[].targetPort must be"},
	"hnp target's name too long":              {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, targetPort: ` + long(16) + `}]}`, refused: "spec.ports[0].targetPort: Too long"},
	"hnp protocol unknown":                    {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, protocol: SCTP}]}`, refused: "spec.ports[0].protocol"},
	"hnp app protocol":                        {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, appProtocol: kubernetes.io/h2c}]}`},
	"hnp app protocol with a space":           {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, appProtocol: HTTP/2 cleartext}]}`, refused: "spec.ports[].appProtocol must be"},
	"hnp app protocol empty":                  {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, appProtocol: ""}]}`, refused: "spec.ports[0].appProtocol"},
	"hnp provider empty":                      {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: null}}`, refused: "spec.provider: set exactly one of gateway, ingress, apisix and routeRef"},
	"hnp user-managed route":                  {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web, ruleNames: [main, api]}}}`},
	"hnp route with one rule":                 {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: GRPCRoute, name: web}}}`},
	"hnp route of a group":                    {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, groups: {policy: Named, names: [1.x]}}}}`},
	"hnp route of each group":                 {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, groups: {policy: Each}}}}`, refused: "spec.provider.routeRef.groups.policy must be Newest or Named"},
	"hnp route pinned twice":                  {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, groups: {policy: Newest}, release: {version: 1.0.0}}}}`, refused: "spec.provider.routeRef: set at most one of groups and release"},
	"hnp route of canaries":                   {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, release: {status: canary}}}}`, refused: "spec.provider.routeRef.release.status is not supported: set release.version"},
	"hnp route next to a gateway":             {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, provider: {routeRef: {kind: HTTPRoute, name: web}}}`, refused: "spec.provider: set exactly one of gateway, ingress, apisix and routeRef"},
	"hnp route of another kind":               {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, provider: {gateway: null, routeRef: {kind: IngressRoute, name: web}}}`, refused: "spec.provider.routeRef.kind: Unsupported value"},
	"hnp route without a name":                {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, provider: {gateway: null, routeRef: {kind: HTTPRoute, name: ""}}}`, refused: "spec.provider.routeRef.name"},
	"hnp route without Restore or Orphan":     {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web}}}`, refused: "spec.deletionPolicy must be Restore or Orphan if spec.provider.routeRef is set"},
	"hnp route and domains":                   {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, domains: [{domain: shop.example.com}], provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web}}}`, refused: "spec.domains cannot be combined with spec.provider.routeRef"},
	"hnp route and listeners":                 {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, ports: [{name: a, port: 80, protocol: TCP}], listeners: [{name: a, port: a, parentRef: {name: g, sectionName: s}}], provider: {gateway: null, routeRef: {kind: TCPRoute, name: web}}}`, refused: "spec.listeners requires spec.provider.gateway"},
	"hnp route's port":                        {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, ports: [{name: a, port: 80}, {name: b, port: 81}], provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web, port: b}}}`},
	"hnp route's port unclear":                {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, ports: [{name: a, port: 80}, {name: b, port: 81}], provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web}}}`, refused: "spec.provider.routeRef.port must be the name of one of spec.ports"},
	"hnp UDP route":                           {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, ports: [{name: a, port: 53, protocol: UDP}], provider: {gateway: null, routeRef: {kind: UDPRoute, name: web}}}`},
	"hnp UDP route to TCP":                    {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, ports: [{name: a, port: 53, protocol: TCP}], provider: {gateway: null, routeRef: {kind: UDPRoute, name: web}}}`, refused: "spec.provider.routeRef.port must name a port with protocol UDP"},
	"hnp HTTP route to UDP":                   {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, ports: [{name: a, port: 53, protocol: UDP}], provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web}}}`, refused: "spec.provider.routeRef.port must name a port with protocol UDP"},
	"hnp route's rule name empty":             {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, ruleNames: [""]}}}`, refused: "spec.provider.routeRef.ruleNames[0]"},
	"hnp route's group name empty":            {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, groups: {policy: Named, names: [""]}}}}`, refused: "spec.provider.routeRef.groups.names[0]"},
	"hnp route's groups too many":             {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, groups: {policy: Named, names: [g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13, g14, g15, g16, g17, g18, g19, g20, g21, g22, g23, g24, g25, g26, g27, g28, g29, g30, g31, g32]}}}}`, refused: "spec.provider.routeRef.groups.names"},
	"hnp route's group policy unknown":        {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, groups: {policy: Some}}}}`, refused: "spec.provider.routeRef.groups.policy"},
	"hnp route's port too long":               {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, port: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}}}`, refused: "spec.provider.routeRef.port"},
	"hnp route of another status":             {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, release: {status: active}}}}`, refused: "spec.provider.routeRef.release.status"},
	"hnp route's version empty":               {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, release: {version: ""}}}}`, refused: "spec.provider.routeRef.release.version"},
	"hnp route, unknown whenAbsent":           {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Orphan, provider: {gateway: null, routeRef: {kind: TLSRoute, name: web, release: {status: canary, whenAbsent: Gone}}}}`, refused: "spec.provider.routeRef.release.whenAbsent"},
	"hnp confirm by probe":                    {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {confirm: Probe}}}`},
	"hnp confirm, unknown value":              {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {confirm: Hope}}}`, refused: "spec.provider.gateway.confirm"},
	"hnp drain delay":                         {kind: "NetworkPolicy", patch: `spec: {drainDelay: 1m30s}`},
	"hnp drain delay in days":                 {kind: "NetworkPolicy", patch: `spec: {drainDelay: 1d}`, refused: "spec.drainDelay"},
	"hnp drain delay too long":                {kind: "NetworkPolicy", patch: `spec: {drainDelay: 25h}`, refused: "spec.drainDelay must be at most 24h"},
	"hnp drain delay far too long":            {kind: "NetworkPolicy", patch: `spec: {drainDelay: 10000h10000h10000h}`, refused: "spec.drainDelay"},
	"hnp route without rule names":            {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Restore, provider: {gateway: null, routeRef: {kind: HTTPRoute, name: web, ruleNames: []}}}`, refused: "spec.provider.routeRef.ruleNames"},
	"hnp gateway without parents":             {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {parentRefs: []}}}`, refused: "spec.provider.gateway.parentRefs"},
	"hnp too many parents":                    {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {parentRefs: ` + numbered(`{name: g#}`, 9) + `}}}`, refused: "spec.provider.gateway.parentRefs: Too many"},
	"hnp parent without a name":               {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {parentRefs: [{name: ""}]}}}`, refused: "spec.provider.gateway.parentRefs[0].name"},
	"hnp parent's namespace empty":            {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {parentRefs: [{name: a, namespace: ""}]}}}`, refused: "spec.provider.gateway.parentRefs[0].namespace"},
	"hnp parent's listener empty":             {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {parentRefs: [{name: a, sectionName: ""}]}}}`, refused: "spec.provider.gateway.parentRefs[0].sectionName"},
	"hnp parent's listener":                   {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: {parentRefs: [{name: a, namespace: infra, sectionName: http}]}}}`},
	"hnp domain":                              {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com}]}`},
	"hnp domain of a group":                   {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "{{.ReleaseGroupName}}.shop.example.com", path: /cart}]}`},
	"hnp domain with every field":             {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "{{ .StreamName }}.{{.FullName}}.{{.Name}}.{{.Version}}.{{.Microservice}}.{{.Namespace}}.example.com"}]}`},
	"hnp wildcard domain":                     {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "*.example.com"}]}`},
	"hnp wildcard inside":                     {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "a.*.example.com"}]}`, refused: "spec.domains[].domain must be a host name"},
	"hnp domain empty":                        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: ""}]}`, refused: "spec.domains[0].domain"},
	"hnp domain too long":                     {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: ` + long(254) + `}]}`, refused: "spec.domains[0].domain: Too long"},
	"hnp domain in upper case":                {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: Shop.example.com}]}`, refused: "spec.domains[].domain must be a host name in lower case"},
	"hnp domain with a scheme":                {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "https://shop.example.com"}]}`, refused: "without a scheme"},
	"hnp domain with a port":                  {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "shop.example.com:80"}]}`, refused: "spec.domains[].domain must be a host name"},
	"hnp domain with a function":              {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "{{lower .Name}}.example.com"}]}`, refused: "spec.domains[].domain must be a host name"},
	"hnp domain's field unknown":              {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "{{.Branch}}.example.com"}]}`, refused: "the supported fields are ReleaseGroupName, StreamName"},
	"hnp domain's field not closed":           {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "{{.Name.example.com"}]}`, refused: "spec.domains[].domain must be a host name"},
	"hnp domains without provider":            {kind: "NetworkPolicy", patch: `spec: {provider: null, domains: [{domain: shop.example.com}]}`, refused: "spec.domains requires spec.provider, which routes them"},
	"hnp domain's port":                       {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80}, {name: b, port: 81}], domains: [{domain: shop.example.com, port: b}]}`},
	"hnp domain's port unclear":               {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80}, {name: b, port: 81}], domains: [{domain: shop.example.com}]}`, refused: "spec.domains[].port must be the name of one of spec.ports"},
	"hnp domain's port unknown":               {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, port: web}]}`, refused: "spec.domains[].port must be the name of one of spec.ports"},
	"hnp canary matches":                      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: X-User, value: beta}, {name: region, value: "eu-.*", type: RegularExpression}]}, {cookie: {name: canary, value: always}, queryParams: [{name: v, value: "2"}]}]}]}`},
	"hnp canary match empty":                  {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{}]}]}`, refused: "set at least one of headers, queryParams, cookie, path, method and grpc"},
	"hnp canary match with a pin":             {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {version: 1.0.0}, canaryMatches: [{cookie: {name: a, value: b}}]}]}`, refused: "set at most one of canaryMatches and release"},
	"hnp canary match header twice":           {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: X-A, value: a}, {name: x-a, value: b}]}]}]}`, refused: "names must be unique"},
	"hnp canary match cookie twice":           {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: cookie, value: a}], cookie: {name: a, value: b}}]}]}`, refused: "set cookie or the Cookie header"},
	"hnp canary match parameter twice":        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{queryParams: [{name: a, value: a}, {name: a, value: b}]}]}]}`, refused: "names must be unique"},
	"hnp canary match bad header":             {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: "a b", value: a}]}]}]}`, refused: "the name of a header or query parameter"},
	"hnp canary match bad cookie":             {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{cookie: {name: a, value: "b;c"}}]}]}`, refused: "the value of a cookie"},
	"hnp canary match bad cookie name":        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{cookie: {name: "a b", value: b}}]}]}`, refused: "the name of a cookie"},
	"hnp canary match type":                   {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: a, value: b, type: Prefix}]}]}]}`, refused: "Unsupported value"},
	"hnp canary matches, nine":                {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [` + strings.Repeat(`{cookie: {name: a, value: b}},`, 9) + `]}]}`, refused: "must have at most 8 items"},
	"hnp canary match cookie name long":       {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{cookie: {name: ` + long(129) + `, value: b}}]}]}`, refused: "canaryMatches[0].cookie.name: Too long"},
	"hnp canary match cookie value long":      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{cookie: {name: a, value: ` + long(1025) + `}}]}]}`, refused: "canaryMatches[0].cookie.value: Too long"},
	"hnp canary match header name long":       {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: ` + long(129) + `, value: b}]}]}]}`, refused: "canaryMatches[0].headers[0].name: Too long"},
	"hnp canary match header value long":      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [{name: a, value: ` + long(1025) + `}]}]}]}`, refused: "canaryMatches[0].headers[0].value: Too long"},
	"hnp canary match parameter name long":    {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{queryParams: [{name: ` + long(129) + `, value: b}]}]}]}`, refused: "canaryMatches[0].queryParams[0].name: Too long"},
	"hnp canary match parameter value long":   {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{queryParams: [{name: a, value: ` + long(1025) + `}]}]}]}`, refused: "canaryMatches[0].queryParams[0].value: Too long"},
	"hnp canary match parameter type":         {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{queryParams: [{name: a, value: b, type: Prefix}]}]}]}`, refused: "canaryMatches[0].queryParams[0].type: Unsupported value"},
	"hnp canary match parameters, nine":       {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{queryParams: [` + strings.Repeat(`{name: a, value: b},`, 9) + `]}]}]}`, refused: "must have at most 8 items"},
	"hnp canary match headers, nine":          {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, canaryMatches: [{headers: [` + strings.Repeat(`{name: a, value: b},`, 9) + `]}]}]}`, refused: "must have at most 8 items"},
	"hnp adopts":                              {kind: "NetworkPolicy", patch: `spec: {adoptFrom: {serviceName: web}, deletionPolicy: Restore}`},
	"hnp adopts another":                      {kind: "NetworkPolicy", update: true, from: `spec: {adoptFrom: {serviceName: web}, deletionPolicy: Restore}`, patch: `spec: {adoptFrom: {serviceName: api}}`, refused: "spec.adoptFrom cannot be changed"},
	"hnp no longer adopts":                    {kind: "NetworkPolicy", update: true, from: `spec: {adoptFrom: {serviceName: web}, deletionPolicy: Restore}`, patch: `spec: {adoptFrom: null}`, refused: "spec.adoptFrom cannot be changed"},
	"msvc adopts another":                     {kind: "Microservice", update: true, from: `spec: {adoptFrom: {deploymentName: web}, deletionPolicy: Restore}`, patch: `spec: {adoptFrom: {deploymentName: api}}`, refused: "spec.adoptFrom cannot be changed"},
	"hnp adopts without Restore or Orphan":    {kind: "NetworkPolicy", patch: `spec: {adoptFrom: {serviceName: web}}`, refused: "spec.deletionPolicy must be Restore or Orphan"},
	"hnp adopts nothing":                      {kind: "NetworkPolicy", patch: `spec: {adoptFrom: {serviceName: ""}, deletionPolicy: Orphan}`, refused: "spec.adoptFrom.serviceName"},
	"hnp adopts a long name":                  {kind: "NetworkPolicy", patch: `spec: {adoptFrom: {serviceName: ` + long(64) + `}, deletionPolicy: Orphan}`, refused: "spec.adoptFrom.serviceName: Too long"},
	"hnp deletion policy":                     {kind: "NetworkPolicy", patch: `spec: {deletionPolicy: Keep}`, refused: "spec.deletionPolicy: Unsupported value"},
	"msvc adopts":                             {kind: "Microservice", patch: `spec: {adoptFrom: {deploymentName: web}, deletionPolicy: Restore}`},
	"msvc adopts without Restore or Orphan":   {kind: "Microservice", patch: `spec: {adoptFrom: {deploymentName: web}, deletionPolicy: Delete}`, refused: "spec.deletionPolicy must be Restore or Orphan"},
	"msvc adopts nothing":                     {kind: "Microservice", patch: `spec: {adoptFrom: {deploymentName: ""}, deletionPolicy: Orphan}`, refused: "spec.adoptFrom.deploymentName"},
	"msvc adopts a long name":                 {kind: "Microservice", patch: `spec: {adoptFrom: {deploymentName: ` + long(254) + `}, deletionPolicy: Orphan}`, refused: "spec.adoptFrom.deploymentName: Too long"},
	"msvc deletion policy":                    {kind: "Microservice", patch: `spec: {deletionPolicy: Keep}`, refused: "spec.deletionPolicy: Unsupported value"},
	"hnp domain's port too long":              {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, port: ` + long(64) + `}]}`, refused: "spec.domains[0].port: Too long"},
	"hnp domain's port is TCP":                {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, protocol: TCP}], domains: [{domain: shop.example.com}]}`, refused: "spec.domains[].port must name a port with protocol HTTP"},
	"hnp domain names a UDP port":             {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80}, {name: b, port: 53, protocol: UDP}], domains: [{domain: shop.example.com, port: b}]}`, refused: "spec.domains[].port must name a port with protocol HTTP"},
	"hnp domain next to a TCP port":           {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 53, protocol: TCP}], domains: [{domain: shop.example.com, port: a}]}`},
	"hnp path without a slash":                {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: cart}]}`, refused: "spec.domains[0].path"},
	"hnp path with two slashes":               {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/cart//'}]}`, refused: "spec.domains[0].path"},
	"hnp path with two slashes inside":        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a//b'}]}`, refused: "spec.domains[0].path"},
	"hnp path with a dot":                     {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a/./b'}]}`, refused: "spec.domains[0].path"},
	"hnp path with two dots":                  {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a/../b'}]}`, refused: "spec.domains[0].path"},
	"hnp path with two dots at the end":       {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a/..'}]}`, refused: "spec.domains[0].path"},
	"hnp path with an escaped slash":          {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a%2Fb'}]}`, refused: "spec.domains[0].path"},
	"hnp path with an escaped backslash":      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a%5cb'}]}`, refused: "spec.domains[0].path"},
	"hnp path with half an escape":            {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a%2'}]}`, refused: "spec.domains[0].path"},
	"hnp path's escape without hex digits":    {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a%zz'}]}`, refused: "spec.domains[0].path"},
	"hnp path with braces":                    {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/{a}'}]}`, refused: "spec.domains[0].path"},
	"hnp path with angle brackets":            {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/<a>'}]}`, refused: "spec.domains[0].path"},
	"hnp path with a quote":                   {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a"b'}]}`, refused: "spec.domains[0].path"},
	"hnp path with a backslash":               {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a\b'}]}`, refused: "spec.domains[0].path"},
	"hnp path with a space":                   {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/a b'}]}`, refused: "spec.domains[0].path"},
	"hnp path with a letter beyond ASCII":     {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/café'}]}`, refused: "spec.domains[0].path"},
	"hnp path with a slash at the end":        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: '/cart/'}]}`, refused: "spec.domains[0].path"},
	"hnp path with dots and escapes":          {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: "/.well-known/a..b/caf%C3%A9/x;v=1,2@3:~$"}]}`},
	"hnp root path":                           {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: /}]}`},
	"hnp path with a query":                   {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, path: "/cart?a=b"}]}`, refused: "spec.domains[0].path"},
	"hnp groups newest":                       {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Newest}}]}`},
	"hnp groups named":                        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Named, names: [1.x]}}]}`},
	"hnp groups unknown":                      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: All}}]}`, refused: "spec.domains[0].groups.policy"},
	"hnp groups Named without names":          {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Named}}]}`, refused: "spec.domains[].groups: set names if and only if policy is Named"},
	"hnp groups Each with names":              {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Each, names: [1.x]}}]}`, refused: "spec.domains[].groups: set names if and only if policy is Named"},
	"hnp too many group names":                {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Named, names: ` + numbered("g#", 33) + `}}]}`, refused: "spec.domains[0].groups.names: Too many"},
	"hnp group name empty":                    {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Named, names: [""]}}]}`, refused: "spec.domains[0].groups.names[0]"},
	"hnp domain pinned":                       {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {version: 1.0.0}}]}`},
	"hnp pinned domain's version":             {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {version: ""}}]}`, refused: "spec.domains[0].release.version"},
	"hnp domain of the canary":                {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {status: canary}}, {domain: a.example.com, release: {status: canary, whenAbsent: NotFound}}]}`},
	"hnp domain of another status":            {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {status: pending}}]}`, refused: "spec.domains[0].release.status: Unsupported value"},
	"hnp domain with version and status":      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {version: 1.0.0, status: canary}}]}`, refused: "release: set exactly one of version and status"},
	"hnp domain with an empty release":        {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {}}]}`, refused: "release: set exactly one of version and status"},
	"hnp domain's version with whenAbsent":    {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {version: 1.0.0, whenAbsent: Active}}]}`, refused: "release.whenAbsent requires release.status"},
	"hnp domain, unknown whenAbsent":          {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, release: {status: canary, whenAbsent: Gone}}]}`, refused: "spec.domains[0].release.whenAbsent: Unsupported value"},
	"hnp domain of a pull request":            {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: "*.pr-{{.Number}}.preview.example.com"}]}`},
	"hnp domain with groups and release":      {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, groups: {policy: Newest}, release: {version: 1.0.0}}]}`, refused: "spec.domains[]: set at most one of groups and release"},
	"hnp most domains":                        {kind: "NetworkPolicy", patch: `spec: {domains: ` + numbered("{domain: #.example.com}", 64) + `}`},
	"hnp too many domains":                    {kind: "NetworkPolicy", patch: `spec: {domains: ` + numbered("{domain: #.example.com}", 65) + `}`, refused: "spec.domains: Too many"},
	"hnp too many ports":                      {kind: "NetworkPolicy", patch: `spec: {ports: ` + numbered("{name: p#, port: 80}", 13) + `}`, refused: "spec.ports: Too many"},
	"hnp unknown field in a domain":           {kind: "NetworkPolicy", patch: `spec: {domains: [{domain: shop.example.com, prot: a}]}`, refused: `unknown field "spec.domains[0].prot"`},
	"hnp field of a Kubernetes NetworkPolicy": {kind: "NetworkPolicy", patch: `spec: {podSelector: {}}`, refused: `unknown field "spec.podSelector"`},
}

// TestRows creates or updates an object for each row. Then it checks that the rows are complete: each CEL message
// occurred at least once, and each field below spec that has limits was rejected at least once.
func TestRows(t *testing.T) {
	messages, fields := map[string]bool{}, map[string]bool{}
	index := regexp.MustCompile(`\[\d+\]`)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			err := try(t, env.Namespace(t), row)
			switch {
			case row.refused == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case row.refused == "":
				return
			case err == nil:
				t.Fatalf("accepted, want an error with %q", row.refused)
			case !strings.Contains(err.Error(), row.refused):
				t.Fatalf("message = %q, want a message with %q", err, row.refused)
			case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
				t.Fatalf("rejected for a reason other than an invalid object: %v", err)
			}
			refusedFields, refusedMessages := causes(err)
			for _, field := range refusedFields {
				fields[row.kind+" "+index.ReplaceAllString(field, "[]")] = true
			}
			for _, message := range refusedMessages {
				messages[message] = true
			}
		})
	}

	for kind, definition := range definitions(t) {
		walk("", schemaOf(definition), func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			for _, rule := range schema.XValidations {
				given := slices.ContainsFunc(slices.Collect(maps.Keys(messages)), func(m string) bool { return strings.Contains(m, rule.Message) })
				if !given {
					t.Errorf("%s %s: no row is rejected with %q", kind, path, rule.Message)
				}
			}
			if strings.HasPrefix(path, "spec.") && bounded(schema) && !fields[kind+" "+path] {
				t.Errorf("%s %s: no row exceeds the bounds of this field", kind, path)
			}
		})
	}
}

// try sends the request of a row to the API server, with strict validation. It creates the row's object or, if the row
// tests an update, creates the base object and then updates it.
func try(t *testing.T, namespace string, row row) error {
	t.Helper()
	if !row.update {
		return env.Client.Create(t.Context(), object(t, row.kind, namespace, row.patch), client.FieldValidation("Strict"))
	}
	from := row.from
	if from == "" {
		from = `spec: {template: {spec: {restartPolicy: Always}}}`
	}
	existing := object(t, row.kind, namespace, from)
	if err := env.Client.Create(t.Context(), existing); err != nil {
		t.Fatalf("create the base: %v", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current := existing.DeepCopy()
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(existing), current); err != nil {
			return err
		}
		raw, err := current.MarshalJSON()
		if err != nil {
			return err
		}
		changed := patched(t, raw, namespace, row.patch)
		return env.Client.Update(t.Context(), changed, client.FieldValidation("Strict"))
	})
}

// bounded reports whether the schema itself can reject a value of the correct type.
func bounded(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.Minimum != nil || s.Maximum != nil || s.MinLength != nil || s.MaxLength != nil || s.Pattern != "" ||
		len(s.Enum) > 0 || s.MinItems != nil || s.MaxItems != nil || s.Format == "date-time"
}
