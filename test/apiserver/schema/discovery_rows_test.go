package schema_test

// discoveryRows are the rows about GitHub, several images, TLS, and signatures in an ImagePolicy, and about
// previews in a Microservice.
var discoveryRows = map[string]row{
	"imgp releases": {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, releases: {}}}, match: {name: {from: "v(.*)", to: "$1"}}}`},
	"imgp tags":     {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop, namespace: git}, tags: {}}}, tagFilter: {exclude: ["^x"]}, deny: ["1.2.3"]}`},
	"imgp pull requests": {kind: "ImagePolicy", patch: `
spec:
  source:
    github:
      repositoryRef: {name: shop}
      pullRequests: {labels: {all: [a], any: [b], none: [c]}, base: main, head: "feature/.*", draft: Include, associations: [Owner, Member], forks: {policy: Approved, label: safe}}
  match: {candidates: ["pr-{{.Number}}-{{.SHA7}}", "{{.Branch}}-{{.SHA}}"], labels: [{name: org.opencontainers.image.revision, value: "{{.SHA}}"}]}`},
	"imgp pull requests, limit of groups":         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, limits: {groups: 256}}`},
	"imgp github without a kind":                  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}}}}`, refused: "spec.source.github: set exactly one of releases, tags and pullRequests"},
	"imgp github with two kinds":                  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, tags: {}, releases: {}}}}`, refused: "set exactly one of releases, tags and pullRequests"},
	"imgp no repository":                          {kind: "ImagePolicy", patch: `spec: {source: {github: {tags: {}}}}`, refused: "spec.source.github.repositoryRef: Required value"},
	"imgp registry and github":                    {kind: "ImagePolicy", patch: `spec: {source: {registry: {}, github: {repositoryRef: {name: shop}, tags: {}}}}`, refused: "spec.source: set exactly one of registry, pinned and github"},
	"imgp range for commits":                      {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, versioning: {range: ">=1.0.0"}}`, refused: "spec.versioning must not be set with spec.source.github.pullRequests"},
	"imgp groupBy for commits":                    {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, versioning: {groupBy: Major}}`, refused: "spec.versioning must not be set with spec.source.github.pullRequests"},
	"imgp minAge for commits":                     {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, minAge: 1h}`, refused: "must not be set with spec.source.github.pullRequests"},
	"imgp denied commits":                         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, deny: ["1.0.0"]}`, refused: "must not be set with spec.source.github.pullRequests"},
	"imgp name mapping for a registry":            {kind: "ImagePolicy", patch: `spec: {match: {name: {from: a, to: b}}}`, refused: "spec.match.name requires spec.source.github.releases or spec.source.github.tags"},
	"imgp name mapping for pull requests":         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, match: {name: {from: a, to: b}}}`, refused: "spec.match.name requires spec.source.github.releases or spec.source.github.tags"},
	"imgp candidates for releases":                {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, releases: {}}}, match: {candidates: ["{{.SHA}}"]}}`, refused: "spec.match.candidates requires spec.source.github.pullRequests"},
	"imgp candidate with an unknown word":         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, match: {candidates: ["{{.Sha}}"]}}`, refused: "the supported variables are {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}}"},
	"imgp candidate without variables":            {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, match: {candidates: ["latest"]}}`, refused: "a tag must name the pull request or its commit: use {{.Number}}, {{.SHA}} or {{.SHA7}}"},
	"imgp candidate with a branch":                {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, match: {candidates: ["{{.SHA}}", "{{.Branch}}"]}}`, refused: "a tag must name the pull request or its commit: use {{.Number}}, {{.SHA}} or {{.SHA7}}"},
	"imgp candidate with a number":                {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, match: {candidates: ["{{.Branch}}-{{.Number}}"]}}`},
	"imgp label with an unknown word":             {kind: "ImagePolicy", patch: `spec: {match: {labels: [{name: a, value: "{{.Revision}}"}]}}`, refused: "spec.match.labels: the supported variables are"},
	"imgp forks approved without a label":         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved}}}}}`, refused: "set label if and only if policy is Approved"},
	"imgp forks approved by commit":               {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved, label: "preview:{{.SHA}}"}}}}}`},
	"imgp forks approved by another variable":     {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved, label: "ok-{{.SHA7}}"}}}}}`, refused: "the only supported variable is {{.SHA}}, which can be used once, as in preview:{{.SHA}}"},
	"imgp forks approved by a long label":         {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved, label: "preview-ok:{{.SHA}}"}}}}}`, refused: "at most ten characters are allowed in addition to {{.SHA}}"},
	"imgp forks approved, tags with seven digits": {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved, label: a}}}}, match: {candidates: ["sha-{{.SHA7}}", "pr-{{.Number}}"]}}`, refused: "add a candidate with {{.SHA}}, such as pr-{{.Number}}-{{.SHA}}"},
	"imgp forks approved, a tag with the commit":  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved, label: a}}}}, match: {candidates: ["sha-{{.SHA7}}", "pr-{{.Number}}-{{.SHA}}"]}}`},
	"imgp forks allowed with a label":             {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Allow, label: a}}}}}`, refused: "set label if and only if policy is Approved"},
	"imgp association in upper case":              {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {associations: [MEMBER]}}}}`, refused: `Unsupported value: "MEMBER"`},

	"imgp several images":              {kind: "ImagePolicy", patch: `spec: {additionalImages: [{containerName: proxy, image: registry.example.com/proxy}, {containerName: init, image: registry.example.com/init}]}`},
	"imgp one container twice":         {kind: "ImagePolicy", patch: `spec: {additionalImages: [{containerName: proxy, image: registry.example.com/proxy}, {containerName: proxy, image: registry.example.com/init}]}`, refused: "Duplicate value"},
	"imgp additional image, tagged":    {kind: "ImagePolicy", patch: `spec: {additionalImages: [{containerName: proxy, image: "registry.example.com/proxy:1"}]}`, refused: "omit the tag and the digest"},
	"imgp additional image, URL":       {kind: "ImagePolicy", patch: `spec: {additionalImages: [{containerName: proxy, image: "https://registry.example.com/proxy"}]}`, refused: "image must not have a scheme"},
	"imgp eight additional images":     {kind: "ImagePolicy", patch: `spec: {additionalImages: ` + numbered(`{containerName: c#, image: registry.example.com/p}`, 8) + `}`, refused: "must have at most 7 items"},
	"imgp own authority":               {kind: "ImagePolicy", patch: `spec: {certSecretRef: {name: registry-tls}, verify: {cosign: {keySecretRef: {name: cosign}}}}`},
	"imgp keyless signatures":          {kind: "ImagePolicy", patch: `spec: {verify: {cosign: {}}}`, refused: "spec.verify.cosign: keyless signatures are not supported"},
	"imgp signatures without a method": {kind: "ImagePolicy", patch: `spec: {verify: {}}`, refused: "spec.verify.cosign: Required value"},

	"msvc previews":                    {kind: "Microservice", patch: `spec: {previews: {maxGroups: 50, maxAge: 72h, keepAfterClose: 10m}}`},
	"msvc no previews":                 {kind: "Microservice", patch: `spec: {previews: {maxGroups: 0}}`, refused: "spec.previews.maxGroups"},
	"msvc previews beyond the maximum": {kind: "Microservice", patch: `spec: {previews: {maxGroups: 257}}`, refused: "spec.previews.maxGroups"},
	"msvc previews for one second":     {kind: "Microservice", patch: `spec: {previews: {maxAge: 1s}}`, refused: "spec.previews.maxAge must be at least 1m"},

	"imgp long certSecretRef":               {kind: "ImagePolicy", patch: `spec: {certSecretRef: {name: ` + long(254) + `}}`, refused: "spec.certSecretRef.name"},
	"imgp nine candidates":                  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {}}}, match: {candidates: ` + numbered("'#{{.SHA}}'", 9) + `}}`, refused: "spec.match.candidates"},
	"imgp nine labels":                      {kind: "ImagePolicy", patch: `spec: {match: {labels: ` + numbered("{name: #}", 9) + `}}`, refused: "spec.match.labels"},
	"imgp long label":                       {kind: "ImagePolicy", patch: `spec: {match: {labels: [{name: ` + long(254) + `}]}}`, refused: "spec.match.labels[0].name"},
	"imgp long value":                       {kind: "ImagePolicy", patch: `spec: {match: {labels: [{name: a, value: ` + long(254) + `}]}}`, refused: "spec.match.labels[0].value"},
	"imgp long name to match":               {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, tags: {}}}, match: {name: {from: ` + long(513) + `, to: b}}}`, refused: "spec.match.name.from"},
	"imgp long replacement name":            {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, tags: {}}}, match: {name: {from: b, to: ` + long(257) + `}}}`, refused: "spec.match.name.to"},
	"imgp long name of a key":               {kind: "ImagePolicy", patch: `spec: {verify: {cosign: {keySecretRef: {name: ` + long(254) + `}}}}`, refused: "spec.verify.cosign.keySecretRef.name"},
	"imgp long container":                   {kind: "ImagePolicy", patch: `spec: {additionalImages: [{containerName: ` + long(64) + `, image: registry.example.com/a}]}`, refused: "spec.additionalImages[0].containerName"},
	"imgp long additional image":            {kind: "ImagePolicy", patch: `spec: {additionalImages: [{containerName: a, image: ` + long(256) + `}]}`, refused: "spec.additionalImages[0].image"},
	"imgp nine associations":                {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {associations: [Owner, Member, Collaborator, Contributor, FirstTimeContributor, FirstTimer, Mannequin, None, Unknown]}}}}`, refused: "spec.source.github.pullRequests.associations"},
	"imgp long base":                        {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {base: ` + long(257) + `}}}}`, refused: "spec.source.github.pullRequests.base"},
	"imgp long head":                        {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {head: ` + long(257) + `}}}}`, refused: "spec.source.github.pullRequests.head"},
	"imgp unknown draft value":              {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {draft: Perhaps}}}}`, refused: "spec.source.github.pullRequests.draft"},
	"imgp unknown fork policy":              {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Perhaps}}}}}`, refused: "spec.source.github.pullRequests.forks.policy"},
	"imgp long approval":                    {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {forks: {policy: Approved, label: ` + long(51) + `}}}}}`, refused: "spec.source.github.pullRequests.forks.label"},
	"imgp seventeen labels, all":            {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {labels: {all: ` + numbered("#", 17) + `}}}}}`, refused: "spec.source.github.pullRequests.labels.all"},
	"imgp long label, all":                  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {labels: {all: [` + long(51) + `]}}}}}`, refused: "spec.source.github.pullRequests.labels.all[0]"},
	"imgp seventeen labels, any":            {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {labels: {any: ` + numbered("#", 17) + `}}}}}`, refused: "spec.source.github.pullRequests.labels.any"},
	"imgp long label, any":                  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {labels: {any: [` + long(51) + `]}}}}}`, refused: "spec.source.github.pullRequests.labels.any[0]"},
	"imgp seventeen labels, none":           {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {labels: {none: ` + numbered("#", 17) + `}}}}}`, refused: "spec.source.github.pullRequests.labels.none"},
	"imgp long label, none":                 {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: shop}, pullRequests: {labels: {none: [` + long(51) + `]}}}}}`, refused: "spec.source.github.pullRequests.labels.none[0]"},
	"imgp long repository":                  {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: ` + long(254) + `}, tags: {}}}}`, refused: "spec.source.github.repositoryRef.name"},
	"imgp long namespace":                   {kind: "ImagePolicy", patch: `spec: {source: {github: {repositoryRef: {name: a, namespace: ` + long(64) + `}, tags: {}}}}`, refused: "spec.source.github.repositoryRef.namespace"},
	"msvc preview retention without a unit": {kind: "Microservice", patch: `spec: {previews: {keepAfterClose: "5"}}`, refused: "spec.previews.keepAfterClose"},
	"vsvc long container of an image":       {kind: "VersionedMicroservice", patch: `spec: {images: [{image: a, digest: b, containerName: ` + long(64) + `}]}`, refused: "spec.images[0].containerName"},
}

var repositoryRows = map[string]row{
	"ghr smallest": {kind: "GitHubRepository"},
	"ghr all": {kind: "GitHubRepository", patch: `
spec:
  baseURL: https://github.example.com/
  credentialsSecretRef: {name: app}
  webhookSecretRef: {name: hook}
  interval: 30s
  suspend: true
  allowedNamespaces: {from: Selector, selector: {matchLabels: {team: shop}}}
  feedback: {deployments: {pullRequests: true, releases: true}, environment: "pr-{{.Number}}/{{.Microservice}}", comment: false}`},
	"ghr feedback with defaults":               {kind: "GitHubRepository", patch: `spec: {credentialsSecretRef: {name: app}, feedback: {}}`},
	"ghr feedback without credentials":         {kind: "GitHubRepository", patch: `spec: {feedback: {}}`, refused: "spec.feedback requires spec.credentialsSecretRef"},
	"ghr no owner":                             {kind: "GitHubRepository", patch: `spec: {owner: null}`, refused: "spec.owner: Required value"},
	"ghr owner with a slash":                   {kind: "GitHubRepository", patch: `spec: {owner: acme/shop}`, refused: "write owner: acme and repo: shop"},
	"ghr repo as a path":                       {kind: "GitHubRepository", patch: `spec: {repo: ".."}`, refused: "spec.repo must be the name of a repository"},
	"ghr repo with a slash":                    {kind: "GitHubRepository", patch: `spec: {repo: a/b}`, refused: "spec.repo must be the name of a repository, without the owner or .git"},
	"ghr base URL with a password":             {kind: "GitHubRepository", patch: `spec: {baseURL: "https://a:b@github.example.com"}`, refused: "spec.baseURL must be an absolute URL"},
	"ghr repo with .git":                       {kind: "GitHubRepository", patch: `spec: {repo: shop.git}`, refused: "without the owner or .git"},
	"ghr base URL with a path":                 {kind: "GitHubRepository", patch: `spec: {baseURL: "https://example.com/github/"}`},
	"ghr base URL of the API":                  {kind: "GitHubRepository", patch: `spec: {baseURL: "https://github.example.com/api/v3/"}`, refused: "omit /api/v3"},
	"ghr base URL with part of the API path":   {kind: "GitHubRepository", patch: `spec: {baseURL: "https://github.example.com/api"}`, refused: "omit /api/v3"},
	"ghr base URL of a file":                   {kind: "GitHubRepository", patch: `spec: {baseURL: "file:///etc/passwd"}`, refused: "spec.baseURL must be an absolute URL"},
	"ghr another repository":                   {kind: "GitHubRepository", update: true, from: `{}`, patch: `spec: {owner: beta, repo: shop2}`},
	"ghr another server":                       {kind: "GitHubRepository", update: true, from: `{}`, patch: `spec: {baseURL: "https://github.example.com"}`, refused: "spec.baseURL is immutable"},
	"ghr server removed":                       {kind: "GitHubRepository", update: true, from: `spec: {baseURL: "https://github.example.com"}`, patch: `spec: {baseURL: null}`, refused: "spec.baseURL is immutable"},
	"ghr interval too short":                   {kind: "GitHubRepository", patch: `spec: {interval: 1s}`, refused: "spec.interval must be between 5s and 24h"},
	"ghr selector with All":                    {kind: "GitHubRepository", patch: `spec: {allowedNamespaces: {from: All, selector: {}}}`, refused: "set selector if and only if from is Selector"},
	"ghr Selector without a selector":          {kind: "GitHubRepository", patch: `spec: {allowedNamespaces: {from: Selector}}`, refused: "set selector if and only if from is Selector"},
	"ghr environment with an unknown variable": {kind: "GitHubRepository", patch: `spec: {credentialsSecretRef: {name: app}, feedback: {environment: "{{.SHA}}"}}`, refused: "spec.feedback.environment: the supported variables are"},

	"ghr namespaces, unknown from value": {kind: "GitHubRepository", patch: `spec: {allowedNamespaces: {from: Some}}`, refused: "spec.allowedNamespaces.from"},
	"ghr long webhook":                   {kind: "GitHubRepository", patch: `spec: {webhookSecretRef: {name: ` + long(254) + `}}`, refused: "spec.webhookSecretRef.name"},
	"ghr long credentials":               {kind: "GitHubRepository", patch: `spec: {credentialsSecretRef: {name: ` + long(254) + `}}`, refused: "spec.credentialsSecretRef.name"},
}
