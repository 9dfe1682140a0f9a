package schema_test

import "strings"

// domain returns a patch for a NetworkPolicy with one domain that has the given fields.
func domain(fields string) string {
	return `spec: {domains: [{domain: shop.example.com, ` + fields + `}]}`
}

// match returns a patch with one entry of canaryMatches.
func match(fields string) string { return domain(`canaryMatches: [{` + fields + `}]`) }

// onPort returns a patch with one port that uses the given protocol, and one domain on this port.
func onPort(protocol, fields string) string {
	return `spec: {ports: [{name: main, port: 443, protocol: ` + protocol + `}], domains: [{domain: shop.example.com` + fields + `}]}`
}

// listened returns a patch with a TCP port and one listener that has the given fields.
func listened(fields string) string {
	return listeners(`{name: a, port: tcp, parentRef: {name: public, sectionName: tcp}` + fields + `}`)
}

func listeners(items ...string) string {
	return `spec: {ports: [{name: http, port: 80}, {name: tcp, port: 5432, protocol: TCP}, {name: udp, port: 53, protocol: UDP}, {name: tls, port: 443, protocol: TLS}], listeners: [` + strings.Join(items, ", ") + `]}`
}

// filter returns a patch with the given filters.
func filter(items ...string) string {
	return `spec: {provider: {gateway: {parentRefs: [{name: public}], filters: [` + strings.Join(items, ", ") + `]}}}`
}

// rewritten returns a patch with a filter that replaces the path prefix, and a domain with the given canaryMatches.
func rewritten(matches string) string {
	return `spec: {provider: {gateway: {parentRefs: [{name: public}], filters: [{urlRewrite: {replacePrefixMatch: /v2}}]}}, domains: [{domain: shop.example.com, canaryMatches: [` + matches + `]}]}`
}

// parents returns a patch with the given parentRefs of the provider.
func parents(items ...string) string {
	return `spec: {provider: {gateway: {parentRefs: [` + strings.Join(items, ", ") + `]}}}`
}

// provided returns a patch with a provider other than the gateway.
func provided(fields string) string { return `spec: {provider: {gateway: null, ` + fields + `}}` }

const (
	matchField    = "spec.domains[0].canaryMatches[0]."
	listenerField = "spec.listeners[0]."
	filterField   = "spec.provider.gateway.filters[0]."
	namedTwice    = "spec.provider.gateway.parentRefs: references to the same Gateway must have different sectionNames"
	setOneFilter  = "set exactly one of requestHeaderModifier, responseHeaderModifier, urlRewrite and extensionRef"
	service       = `extensionRef: {group: traefik.io, kind: Middleware, name: a}`
)

// routingRows are the rows about protocols, listeners, matches, filters, timeouts, and affinity in a
// NetworkPolicy.
var routingRows = map[string]row{
	"hnp protocol HTTPS":                             {kind: "NetworkPolicy", patch: onPort("HTTPS", ", path: /a")},
	"hnp protocol GRPC":                              {kind: "NetworkPolicy", patch: onPort("GRPC", "")},
	"hnp protocol TLS":                               {kind: "NetworkPolicy", patch: onPort("TLS", "")},
	"hnp domain on TCP":                              {kind: "NetworkPolicy", patch: onPort("TCP", ""), refused: "must name a port with protocol HTTP, HTTPS, GRPC or TLS"},
	"hnp domain on UDP":                              {kind: "NetworkPolicy", patch: onPort("UDP", ""), refused: "must name a port with protocol HTTP, HTTPS, GRPC or TLS"},
	"hnp path on TLS":                                {kind: "NetworkPolicy", patch: onPort("TLS", ", path: /a"), refused: "spec.domains[]: path and canaryMatches cannot be combined with a port with protocol TLS"},
	"hnp matches on TLS":                             {kind: "NetworkPolicy", patch: onPort("TLS", ", canaryMatches: [{method: GET}]"), refused: "spec.domains[]: path and canaryMatches cannot be combined with a port with protocol TLS"},
	"hnp path on GRPC":                               {kind: "NetworkPolicy", patch: onPort("GRPC", ", path: /a"), refused: "spec.domains[].path requires a port with protocol HTTP or HTTPS"},
	"hnp path next to GRPC":                          {kind: "NetworkPolicy", patch: `spec: {ports: [{name: a, port: 80}, {name: b, port: 81, protocol: GRPC}, {name: c, port: 82, protocol: TLS}], domains: [{domain: a.example.com, port: a, path: /x}]}`},
	"hnp calls on GRPC":                              {kind: "NetworkPolicy", patch: onPort("GRPC", `, canaryMatches: [{grpc: {service: shop.v1.Cart, method: Add}}]`)},
	"hnp call empty":                                 {kind: "NetworkPolicy", patch: match("grpc: {}"), refused: "set at least one of service and method"},
	"hnp call's service with a slash":                {kind: "NetworkPolicy", patch: match(`grpc: {service: shop/v1}`), refused: matchField + "grpc.service"},
	"hnp call's service empty":                       {kind: "NetworkPolicy", patch: match(`grpc: {service: ""}`), refused: matchField + "grpc.service"},
	"hnp call's service long":                        {kind: "NetworkPolicy", patch: match(`grpc: {service: ` + long(1025) + `}`), refused: matchField + "grpc.service: Too long"},
	"hnp call's method with a dot":                   {kind: "NetworkPolicy", patch: match(`grpc: {method: a.b}`), refused: matchField + "grpc.method"},
	"hnp call's method empty":                        {kind: "NetworkPolicy", patch: match(`grpc: {method: ""}`), refused: matchField + "grpc.method"},
	"hnp call's method long":                         {kind: "NetworkPolicy", patch: match(`grpc: {method: ` + long(1025) + `}`), refused: matchField + "grpc.method: Too long"},
	"hnp match by path":                              {kind: "NetworkPolicy", patch: match("path: {value: /v2}")},
	"hnp match by exact path":                        {kind: "NetworkPolicy", patch: match("path: {value: /v2, type: Exact}")},
	"hnp match by path, other type":                  {kind: "NetworkPolicy", patch: match("path: {value: /v2, type: RegularExpression}"), refused: matchField + "path.type: Unsupported value"},
	"hnp match by path, no slash":                    {kind: "NetworkPolicy", patch: match("path: {value: v2}"), refused: matchField + "path.value"},
	"hnp match by path, none":                        {kind: "NetworkPolicy", patch: match("path: {type: Exact}"), refused: matchField + "path.value: Required value"},
	"hnp match by path, long":                        {kind: "NetworkPolicy", patch: match("path: {value: /" + long(512) + "}"), refused: matchField + "path.value: Too long"},
	"hnp match below the path":                       {kind: "NetworkPolicy", patch: domain("path: /cart, canaryMatches: [{path: {value: /cart/v2}}]")},
	"hnp match outside the path":                     {kind: "NetworkPolicy", patch: domain("path: /cart, canaryMatches: [{path: {value: /v2}}]"), refused: "canaryMatches[].path.value must be the domain's path, or a path below it"},
	"hnp match that begins like the path":            {kind: "NetworkPolicy", patch: domain("path: /shop, canaryMatches: [{path: {value: /shopping}}]"), refused: "canaryMatches[].path.value must be the domain's path, or a path below it"},
	"hnp match by the same path":                     {kind: "NetworkPolicy", patch: domain("path: /cart, canaryMatches: [{path: {value: /cart}}, {path: {value: /cart/, type: Exact}}]")},
	"hnp match below the root":                       {kind: "NetworkPolicy", patch: domain("path: /, canaryMatches: [{path: {value: /cart}}]")},
	"hnp match by path, double slash":                {kind: "NetworkPolicy", patch: match("path: {value: /a//b}"), refused: matchField + "path.value"},
	"hnp match by path, braces":                      {kind: "NetworkPolicy", patch: match("path: {value: '/{a}'}"), refused: matchField + "path.value"},
	"hnp exact path with a prefix rewrite":           {kind: "NetworkPolicy", patch: rewritten("{path: {value: /a, type: Exact}}"), refused: "path.type must be PathPrefix or omitted if urlRewrite.replacePrefixMatch"},
	"hnp prefix paths with a prefix rewrite":         {kind: "NetworkPolicy", patch: rewritten("{path: {value: /a}}, {path: {value: /b, type: PathPrefix}}, {method: GET}")},
	"hnp match by method":                            {kind: "NetworkPolicy", patch: match("method: POST")},
	"hnp match by method in lower case":              {kind: "NetworkPolicy", patch: match("method: post"), refused: matchField + "method: Unsupported value"},
	"hnp domain's parents":                           {kind: "NetworkPolicy", patch: domain("parentRefs: [{name: private, namespace: infra, sectionName: web}]")},
	"hnp domain's parents none":                      {kind: "NetworkPolicy", patch: domain("parentRefs: []"), refused: "spec.domains[0].parentRefs"},
	"hnp domain's parents too many":                  {kind: "NetworkPolicy", patch: domain("parentRefs: " + numbered("{name: g#}", 9)), refused: "spec.domains[0].parentRefs: Too many"},
	"hnp domain's parent without a name":             {kind: "NetworkPolicy", patch: domain("parentRefs: [{name: \"\"}]"), refused: "spec.domains[0].parentRefs[0].name"},
	"hnp domain's parent, empty namespace":           {kind: "NetworkPolicy", patch: domain("parentRefs: [{name: a, namespace: \"\"}]"), refused: "spec.domains[0].parentRefs[0].namespace"},
	"hnp domain's parent, no listener":               {kind: "NetworkPolicy", patch: domain("parentRefs: [{name: a, sectionName: \"\"}]"), refused: "spec.domains[0].parentRefs[0].sectionName"},
	"hnp parents that differ":                        {kind: "NetworkPolicy", patch: parents("{name: a, sectionName: web}", "{name: a, sectionName: tls}", "{name: a, namespace: infra}", "{name: b}")},
	"hnp parent twice":                               {kind: "NetworkPolicy", patch: parents("{name: a}", "{name: a}"), refused: namedTwice},
	"hnp parent next to its listener":                {kind: "NetworkPolicy", patch: parents("{name: a}", "{name: a, sectionName: web}"), refused: namedTwice},
	"hnp parent's listener twice":                    {kind: "NetworkPolicy", patch: parents("{name: a, namespace: infra, sectionName: web}", "{name: b}", "{name: a, namespace: infra, sectionName: web}"), refused: namedTwice},
	"hnp parent's name invalid":                      {kind: "NetworkPolicy", patch: parents("{name: Public_1}"), refused: "the name of a Gateway must consist of lowercase letters"},
	"hnp parent's namespace invalid":                 {kind: "NetworkPolicy", patch: parents("{name: a, namespace: a.b}"), refused: "the namespace of a Gateway must consist of lowercase letters"},
	"hnp parent's listener invalid":                  {kind: "NetworkPolicy", patch: parents("{name: a, sectionName: Web}"), refused: "sectionName, the name of a listener of the Gateway, must consist of lowercase letters"},
	"hnp domain's parent twice":                      {kind: "NetworkPolicy", patch: domain("parentRefs: [{name: a}, {name: a, sectionName: web}]"), refused: "spec.domains[].parentRefs: references to the same Gateway must have different sectionNames"},
	"hnp domain's parents, maximum":                  {kind: "NetworkPolicy", patch: domain("parentRefs: " + numbered("{name: g, sectionName: s#}", 8))},
	"hnp extension's group invalid":                  {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: Traefik IO, kind: Middleware, name: a}}"), refused: "the group of an extensionRef must consist of lowercase letters"},
	"hnp extension's kind with a dash":               {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: traefik.io, kind: Middleware-, name: a}}"), refused: "kind must start with a letter"},
	"hnp listener":                                   {kind: "NetworkPolicy", patch: listened("")},
	"hnp listener over UDP":                          {kind: "NetworkPolicy", patch: listeners(`{name: a, port: udp, parentRef: {name: public, sectionName: dns}}`)},
	"hnp listeners, maximum":                         {kind: "NetworkPolicy", patch: listeners(strings.Trim(numbered(`{name: l#, port: tcp, parentRef: {name: public, sectionName: s#}}`, 16), "[]"))},
	"hnp listeners, too many":                        {kind: "NetworkPolicy", patch: listeners(strings.Trim(numbered(`{name: l#, port: tcp, parentRef: {name: public, sectionName: s#}}`, 17), "[]")), refused: "spec.listeners: Too many"},
	"hnp listener twice":                             {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tcp, parentRef: {name: public, sectionName: a}}`, `{name: a, port: tcp, parentRef: {name: public, sectionName: b}}`), refused: "Duplicate value"},
	"hnp listener for the newest group":              {kind: "NetworkPolicy", patch: listened(", groups: {policy: Newest}")},
	"hnp listener for a named group":                 {kind: "NetworkPolicy", patch: listened(", groups: {policy: Named, names: [1.x]}")},
	"hnp listener for each group":                    {kind: "NetworkPolicy", patch: listened(", groups: {policy: Each}"), refused: "spec.listeners[].groups.policy must be Newest or Named"},
	"hnp listener for groups without a policy":       {kind: "NetworkPolicy", patch: listened(", groups: {}"), refused: listenerField + "groups.policy: Required value"},
	"hnp listener for Named without names":           {kind: "NetworkPolicy", patch: listened(", groups: {policy: Named}"), refused: "set names if and only if policy is Named"},
	"hnp listener for too many groups":               {kind: "NetworkPolicy", patch: listened(", groups: {policy: Named, names: " + numbered("g#", 33) + "}"), refused: listenerField + "groups.names: Too many"},
	"hnp listener for a group with an empty name":    {kind: "NetworkPolicy", patch: listened(`, groups: {policy: Named, names: [""]}`), refused: listenerField + "groups.names[0]"},
	"hnp listener for a group with a long name":      {kind: "NetworkPolicy", patch: listened(`, groups: {policy: Named, names: [` + long(254) + `]}`), refused: listenerField + "groups.names[0]: Too long"},
	"hnp listener for the same group twice":          {kind: "NetworkPolicy", patch: listened(`, groups: {policy: Named, names: [a, a]}`), refused: "Duplicate value"},
	"hnp listener with an unknown group policy":      {kind: "NetworkPolicy", patch: listened(`, groups: {policy: Oldest}`), refused: listenerField + "groups.policy: Unsupported value"},
	"hnp listener pinned":                            {kind: "NetworkPolicy", patch: listened(", release: {version: 1.0.0}")},
	"hnp listener pinned to nothing":                 {kind: "NetworkPolicy", patch: listened(", release: {}"), refused: "release: set exactly one of version and status"},
	"hnp listener for another status":                {kind: "NetworkPolicy", patch: listened(", release: {status: active}"), refused: listenerField + "release.status: Unsupported value"},
	"hnp listener with an unknown whenAbsent":        {kind: "NetworkPolicy", patch: listened(", release: {status: canary, whenAbsent: Gone}"), refused: listenerField + "release.whenAbsent: Unsupported value"},
	"hnp listener for the canary":                    {kind: "NetworkPolicy", patch: listened(", release: {status: canary, whenAbsent: NotFound}")},
	"hnp listener pinned, empty":                     {kind: "NetworkPolicy", patch: listened(`, release: {version: ""}`), refused: listenerField + "release.version"},
	"hnp listener pinned, long":                      {kind: "NetworkPolicy", patch: listened(`, release: {version: ` + long(129) + `}`), refused: listenerField + "release.version: Too long"},
	"hnp listener pinned and for a group":            {kind: "NetworkPolicy", patch: listened(", release: {version: 1.0.0}, groups: {policy: Newest}"), refused: "spec.listeners[]: set at most one of groups and release"},
	"hnp listener on an HTTP port":                   {kind: "NetworkPolicy", patch: listeners(`{name: a, port: http, parentRef: {name: public, sectionName: a}}`), refused: "spec.listeners[].port must be the name of one of spec.ports with protocol TCP or UDP"},
	"hnp listener on a TLS port":                     {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tls, parentRef: {name: public, sectionName: a}}`), refused: "spec.listeners[].port must be the name of one of spec.ports with protocol TCP or UDP"},
	"hnp listener on an unknown port":                {kind: "NetworkPolicy", patch: listeners(`{name: a, port: none, parentRef: {name: public, sectionName: a}}`), refused: "spec.listeners[].port must be the name of one of spec.ports with protocol TCP or UDP"},
	"hnp listener's port absent":                     {kind: "NetworkPolicy", patch: listeners(`{name: a, parentRef: {name: public, sectionName: a}}`), refused: listenerField + "port: Required value"},
	"hnp listener's port long":                       {kind: "NetworkPolicy", patch: listeners(`{name: a, port: ` + long(64) + `, parentRef: {name: public, sectionName: a}}`), refused: listenerField + "port: Too long"},
	"hnp listener's port empty":                      {kind: "NetworkPolicy", patch: listeners(`{name: a, port: "", parentRef: {name: public, sectionName: a}}`), refused: listenerField + "port"},
	"hnp listener's name in upper case":              {kind: "NetworkPolicy", patch: listeners(`{name: A, port: tcp, parentRef: {name: public, sectionName: a}}`), refused: listenerField + "name"},
	"hnp listener's name long":                       {kind: "NetworkPolicy", patch: listeners(`{name: ` + long(64) + `, port: tcp, parentRef: {name: public, sectionName: a}}`), refused: listenerField + "name: Too long"},
	"hnp listener's name absent":                     {kind: "NetworkPolicy", patch: listeners(`{port: tcp, parentRef: {name: public, sectionName: a}}`), refused: listenerField + "name: Required value"},
	"hnp listener without a parent":                  {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tcp}`), refused: listenerField + "parentRef: Required value"},
	"hnp listener without a section":                 {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tcp, parentRef: {name: public}}`), refused: "spec.listeners[].parentRef.sectionName is required"},
	"hnp listener without a provider":                {kind: "NetworkPolicy", patch: strings.Replace(listened(""), "spec: {", "spec: {provider: null, ", 1), refused: "spec.listeners requires spec.provider, which routes them"},
	"hnp filters":                                    {kind: "NetworkPolicy", patch: filter(`{requestHeaderModifier: {set: [{name: X-A, value: a}], add: [{name: X-B, value: b}], remove: [X-C]}}`)},
	"hnp filters of all kinds":                       {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {remove: [a]}}", "{responseHeaderModifier: {remove: [a]}}", "{urlRewrite: {hostname: a.example.com, replacePrefixMatch: /a}}", "{"+service+"}", "{"+service+"}")},
	"hnp filter empty":                               {kind: "NetworkPolicy", patch: filter("{}"), refused: setOneFilter},
	"hnp filter with two kinds":                      {kind: "NetworkPolicy", patch: filter("{responseHeaderModifier: {remove: [a]}, " + service + "}"), refused: setOneFilter},
	"hnp filter twice":                               {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {remove: [a]}}", "{requestHeaderModifier: {remove: [b]}}"), refused: "only extensionRef may be set more than once"},
	"hnp ingress":                                    {kind: "NetworkPolicy", patch: provided("ingress: {className: nginx, annotationPrefix: nginx.ingress.kubernetes.io}")},
	"hnp ingress without a class":                    {kind: "NetworkPolicy", patch: provided("ingress: {}"), refused: "spec.provider.ingress.className"},
	"hnp ingress class empty":                        {kind: "NetworkPolicy", patch: provided(`ingress: {className: ""}`), refused: "spec.provider.ingress.className"},
	"hnp ingress class invalid":                      {kind: "NetworkPolicy", patch: provided("ingress: {className: A_b}"), refused: "spec.provider.ingress.className"},
	"hnp ingress class too long":                     {kind: "NetworkPolicy", patch: provided("ingress: {className: " + long(254) + "}"), refused: "spec.provider.ingress.className: Too long"},
	"hnp annotation prefix empty":                    {kind: "NetworkPolicy", patch: provided(`ingress: {className: a, annotationPrefix: ""}`), refused: "spec.provider.ingress.annotationPrefix"},
	"hnp annotation prefix with a slash":             {kind: "NetworkPolicy", patch: provided("ingress: {className: a, annotationPrefix: nginx.org/}"), refused: "spec.provider.ingress.annotationPrefix"},
	"hnp annotation prefix too long":                 {kind: "NetworkPolicy", patch: provided("ingress: {className: a, annotationPrefix: " + long(254) + "}"), refused: "spec.provider.ingress.annotationPrefix: Too long"},
	"hnp apisix":                                     {kind: "NetworkPolicy", patch: provided("apisix: {className: apisix}")},
	"hnp apisix without a class":                     {kind: "NetworkPolicy", patch: provided("apisix: {}")},
	"hnp apisix class empty":                         {kind: "NetworkPolicy", patch: provided(`apisix: {className: ""}`), refused: "spec.provider.apisix.className"},
	"hnp apisix class invalid":                       {kind: "NetworkPolicy", patch: provided("apisix: {className: A_b}"), refused: "spec.provider.apisix.className"},
	"hnp apisix class too long":                      {kind: "NetworkPolicy", patch: provided("apisix: {className: " + long(254) + "}"), refused: "spec.provider.apisix.className: Too long"},
	"hnp two providers":                              {kind: "NetworkPolicy", patch: provided("apisix: {}, ingress: {className: a}"), refused: "spec.provider: set exactly one of gateway, ingress, apisix and routeRef"},
	"hnp listeners with an ingress":                  {kind: "NetworkPolicy", patch: strings.Replace(listened(""), "spec: {", "spec: {provider: {gateway: null, ingress: {className: a}}, ", 1), refused: "spec.listeners requires spec.provider.gateway"},
	"hnp parents with an ingress":                    {kind: "NetworkPolicy", patch: strings.Replace(domain("parentRefs: [{name: a}]"), "spec: {", "spec: {provider: {gateway: null, ingress: {className: a}}, ", 1), refused: "spec.domains[].parentRefs requires spec.provider.gateway"},
	"hnp filters too many":                           {kind: "NetworkPolicy", patch: filter(strings.Trim(strings.Repeat("{"+service+"}, ", 9), ", ")), refused: "spec.provider.gateway.filters: Too many"},
	"hnp header filter empty":                        {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {}}"), refused: "at least one of set, add and remove is required"},
	"hnp header filter sets nothing":                 {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {set: []}}"), refused: filterField + "requestHeaderModifier.set"},
	"hnp header filter adds nothing":                 {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {add: []}}"), refused: filterField + "requestHeaderModifier.add"},
	"hnp header filter removes nothing":              {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {remove: []}}"), refused: filterField + "requestHeaderModifier.remove"},
	"hnp header filter sets twice":                   {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {set: [{name: a, value: a}, {name: a, value: b}]}}"), refused: "Duplicate value"},
	"hnp header filter removes twice":                {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {remove: [a, a]}}"), refused: "Duplicate value"},
	"hnp header filter sets too many":                {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {set: " + numbered("{name: a#, value: a}", 17) + "}}"), refused: "requestHeaderModifier.set: Too many"},
	"hnp header filter adds too many":                {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {add: " + numbered("{name: a#, value: a}", 17) + "}}"), refused: "requestHeaderModifier.add: Too many"},
	"hnp header filter removes too many":             {kind: "NetworkPolicy", patch: filter("{requestHeaderModifier: {remove: " + numbered("a#", 17) + "}}"), refused: "requestHeaderModifier.remove: Too many"},
	"hnp header filter's name":                       {kind: "NetworkPolicy", patch: filter(`{requestHeaderModifier: {set: [{name: "a b", value: a}]}}`), refused: "requestHeaderModifier.set[0].name"},
	"hnp header filter's name long":                  {kind: "NetworkPolicy", patch: filter(`{requestHeaderModifier: {set: [{name: ` + long(129) + `, value: a}]}}`), refused: "requestHeaderModifier.set[0].name: Too long"},
	"hnp header filter's value long":                 {kind: "NetworkPolicy", patch: filter(`{requestHeaderModifier: {set: [{name: a, value: ` + long(1025) + `}]}}`), refused: "requestHeaderModifier.set[0].value: Too long"},
	"hnp header filter's value empty":                {kind: "NetworkPolicy", patch: filter(`{requestHeaderModifier: {set: [{name: a, value: ""}]}}`), refused: "requestHeaderModifier.set[0].value"},
	"hnp rewrite empty":                              {kind: "NetworkPolicy", patch: filter("{urlRewrite: {}}"), refused: "urlRewrite: set at least one of hostname and replacePrefixMatch"},
	"hnp rewrite to an invalid host":                 {kind: "NetworkPolicy", patch: filter("{urlRewrite: {hostname: \"*.a\"}}"), refused: filterField + "urlRewrite.hostname"},
	"hnp rewrite to a long host":                     {kind: "NetworkPolicy", patch: filter("{urlRewrite: {hostname: " + long(254) + "}}"), refused: filterField + "urlRewrite.hostname: Too long"},
	"hnp rewrite to an invalid path":                 {kind: "NetworkPolicy", patch: filter("{urlRewrite: {replacePrefixMatch: a}}"), refused: filterField + "urlRewrite.replacePrefixMatch"},
	"hnp rewrite to a path that is not clean":        {kind: "NetworkPolicy", patch: filter("{urlRewrite: {replacePrefixMatch: /a/../b}}"), refused: filterField + "urlRewrite.replacePrefixMatch"},
	"hnp rewrite to a long path":                     {kind: "NetworkPolicy", patch: filter("{urlRewrite: {replacePrefixMatch: /" + long(512) + "}}"), refused: filterField + "urlRewrite.replacePrefixMatch: Too long"},
	"hnp extension without a group":                  {kind: "NetworkPolicy", patch: filter("{extensionRef: {kind: A, name: a}}"), refused: filterField + "extensionRef.group: Required value"},
	"hnp extension without a kind":                   {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: a, name: a}}"), refused: filterField + "extensionRef.kind: Required value"},
	"hnp extension without a name":                   {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: a, kind: A}}"), refused: filterField + "extensionRef.name: Required value"},
	"hnp extension with an invalid kind":             {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: a, kind: a.b, name: a}}"), refused: filterField + "extensionRef.kind"},
	"hnp extension with a long kind":                 {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: a, kind: " + long(64) + ", name: a}}"), refused: filterField + "extensionRef.kind: Too long"},
	"hnp extension with a long group":                {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: " + long(254) + ", kind: A, name: a}}"), refused: filterField + "extensionRef.group: Too long"},
	"hnp extension with a long name":                 {kind: "NetworkPolicy", patch: filter("{extensionRef: {group: a, kind: A, name: " + long(254) + "}}"), refused: filterField + "extensionRef.name: Too long"},
	"hnp timeouts":                                   {kind: "NetworkPolicy", patch: `spec: {timeouts: {request: 1m30s, backendRequest: 500ms}}`},
	"hnp timeout of zero":                            {kind: "NetworkPolicy", patch: `spec: {timeouts: {request: 0s}}`},
	"hnp timeout as a number":                        {kind: "NetworkPolicy", patch: `spec: {timeouts: {request: "10"}}`, refused: `spec.timeouts.request: Invalid value: "10": must be a duration`},
	"hnp timeout in days":                            {kind: "NetworkPolicy", patch: `spec: {timeouts: {backendRequest: 1d}}`, refused: `spec.timeouts.backendRequest: Invalid value: "1d": must be a duration`},
	"hnp timeout that is empty":                      {kind: "NetworkPolicy", patch: `spec: {timeouts: {request: ""}}`, refused: `spec.timeouts.request: Invalid value: "": must be a duration`},
	"hnp timeout of a pod above that of the request": {kind: "NetworkPolicy", patch: `spec: {timeouts: {request: 1s, backendRequest: 2s}}`, refused: "spec.timeouts: backendRequest must be less than or equal to request"},
	"hnp timeout of a pod, none for the request":     {kind: "NetworkPolicy", patch: `spec: {timeouts: {request: 0s, backendRequest: 2s}}`},
	"hnp affinity by cookie":                         {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {cookie: {name: sticky, lifetime: 1h}}}`},
	"hnp affinity by the default cookie":             {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {cookie: {}}}`},
	"hnp affinity by address":                        {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {clientIP: {timeoutSeconds: 86400}}}`},
	"hnp affinity without a kind":                    {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {}}`, refused: "spec.sessionAffinity: set exactly one of cookie and clientIP"},
	"hnp affinity with both kinds":                   {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {cookie: {}, clientIP: {}}}`, refused: "spec.sessionAffinity: set exactly one of cookie and clientIP"},
	"hnp affinity's cookie with a space":             {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {cookie: {name: "a b"}}}`, refused: "spec.sessionAffinity.cookie.name"},
	"hnp affinity's cookie name too long":            {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {cookie: {name: ` + long(129) + `}}}`, refused: "spec.sessionAffinity.cookie.name: Too long"},
	"hnp affinity's lifetime in days":                {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {cookie: {lifetime: 1d}}}`, refused: `spec.sessionAffinity.cookie.lifetime: Invalid value: "1d": must be a duration`},
	"hnp affinity's timeout too long":                {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {clientIP: {timeoutSeconds: 86401}}}`, refused: "spec.sessionAffinity.clientIP.timeoutSeconds"},
	"hnp affinity's timeout not positive":            {kind: "NetworkPolicy", patch: `spec: {sessionAffinity: {clientIP: {timeoutSeconds: -1}}}`, refused: "spec.sessionAffinity.clientIP.timeoutSeconds"},
	"hnp listener's parent, no name":                 {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tcp, parentRef: {name: "", sectionName: a}}`), refused: listenerField + "parentRef.name"},
	"hnp listener's parent, no namespace":            {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tcp, parentRef: {name: a, namespace: "", sectionName: a}}`), refused: listenerField + "parentRef.namespace"},
	"hnp listener's parent, no section":              {kind: "NetworkPolicy", patch: listeners(`{name: a, port: tcp, parentRef: {name: a, sectionName: ""}}`), refused: listenerField + "parentRef.sectionName"},
	"hnp listener with a typo":                       {kind: "NetworkPolicy", patch: listened(", sectionNmae: a"), refused: `unknown field "` + listenerField + `sectionNmae"`},
}

// headerRows returns rows for the limits of headers in both filters that change headers.
func headerRows() map[string]row {
	out := map[string]row{}
	for _, field := range []string{"requestHeaderModifier", "responseHeaderModifier"} {
		at := func(name, value, refused string) {
			out["hnp "+field+" "+name] = row{kind: "NetworkPolicy", patch: filter("{" + field + ": {" + value + "}}"), refused: filterField + field + "." + refused}
		}
		for _, list := range []string{"set", "add"} {
			at(list+" too many", list+": "+numbered("{name: a#, value: a}", 17), list+": Too many")
			at(list+" name long", list+": [{name: "+long(129)+", value: a}]", list+"[0].name: Too long")
			at(list+" value long", list+": [{name: a, value: "+long(1025)+"}]", list+"[0].value: Too long")
		}
		at("remove too many", "remove: "+numbered("a#", 17), "remove: Too many")
		at("remove empty", `remove: [""]`, "remove[0]")
		at("remove long", "remove: ["+long(257)+"]", "remove[0]: Too long")
	}
	return out
}
