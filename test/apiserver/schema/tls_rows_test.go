package schema_test

import "strings"

// encrypted returns a patch for a NetworkPolicy that has spec.provider.gateway. The patch sets a domain with
// the given fields in tls.
func encrypted(fields string) string { return domain(`tls: {` + fields + `}`) }

// encryptedBy returns a patch with another provider, and a domain with the given fields in tls.
func encryptedBy(provider, fields string) string {
	return `spec: {provider: {gateway: null, ` + provider + `}, domains: [{domain: shop.example.com, tls: {` + fields + `}}]}`
}

// issuer returns a patch with the given fields in issuerRef.
func issuer(fields string) string {
	return encrypted(`mode: ListenerSet, secretName: shop-tls, issuerRef: {` + fields + `}`)
}

const (
	classNginx  = `ingress: {className: nginx}`
	tlsMode     = "spec.domains[].tls.mode must be Gateway or ListenerSet if spec.provider.gateway is set"
	tlsNeeded   = "spec.domains[].tls.secretName is required"
	tlsSecret   = "spec.domains[].tls.secretName must be the name of a Secret"
	twoParents  = `provider: {gateway: {parentRefs: [{name: a}, {name: b}]}}, domains: [{domain: shop.example.com, tls: {mode: ListenerSet, secretName: a}`
	manyParents = `provider: {gateway: {parentRefs: [{name: a}, {name: b}, {name: c}]}}, domains: [{domain: shop.example.com, tls: {mode: ListenerSet, secretName: a}`
)

// tlsRows are the rows about certificates and DNS records in a NetworkPolicy.
var tlsRows = map[string]row{
	"hnp tls empty":                              {kind: "NetworkPolicy", patch: encrypted(``)},
	"hnp tls at the gateway":                     {kind: "NetworkPolicy", patch: encrypted(`mode: Gateway`)},
	"hnp tls at the gateway, secret":             {kind: "NetworkPolicy", patch: encrypted(`mode: Gateway, secretName: a`), refused: "spec.domains[].tls: secretName and issuerRef cannot be combined with mode Gateway"},
	"hnp tls without a mode, secret":             {kind: "NetworkPolicy", patch: encrypted(`secretName: a`), refused: "spec.domains[].tls.secretName requires mode ListenerSet"},
	"hnp tls mode unknown":                       {kind: "NetworkPolicy", patch: encrypted(`mode: Terminate`), refused: "spec.domains[0].tls.mode: Unsupported value"},
	"hnp tls listener set":                       {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: shop-tls, port: 8443`)},
	"hnp tls listener set, no secret":            {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet`), refused: tlsNeeded},
	"hnp tls listener set, port 0":               {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: a, port: 0`), refused: "spec.domains[0].tls.port"},
	"hnp tls listener set, port 65536":           {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: a, port: 65536`), refused: "spec.domains[0].tls.port"},
	"hnp tls port at the gateway":                {kind: "NetworkPolicy", patch: encrypted(`port: 8443`), refused: "spec.domains[].tls.port is allowed only with mode ListenerSet"},
	"hnp tls listener set, 2 parents":            {kind: "NetworkPolicy", patch: `spec: {` + twoParents + `}]}`},
	"hnp tls listener set, 3 parents":            {kind: "NetworkPolicy", patch: `spec: {` + manyParents + `}]}`, refused: "at most 2 parentRefs"},
	"hnp tls listener set, own parents":          {kind: "NetworkPolicy", patch: `spec: {` + manyParents + `, parentRefs: [{name: a}]}]}`},
	"hnp tls listener set, 3 own parents":        {kind: "NetworkPolicy", patch: `spec: {` + twoParents + `, parentRefs: [{name: a}, {name: b}, {name: c}]}]}`, refused: "at most 2 parentRefs"},
	"hnp tls secret with the group":              {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: "shop-{{.ReleaseGroupName}}-tls"`)},
	"hnp tls secret with fields":                 {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: "{{ .FullName }}.{{.Name}}.{{.Microservice}}.{{.Namespace}}"`)},
	"hnp tls secret with the version":            {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: "shop-{{.Version}}"`), refused: "spec.domains[].tls.secretName: the supported fields are"},
	"hnp tls secret in upper case":               {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: Shop`), refused: tlsSecret},
	"hnp tls secret elsewhere":                   {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: other/shop`), refused: tlsSecret},
	"hnp tls secret with a dash at the end":      {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: shop-`), refused: tlsSecret},
	"hnp tls secret with a leading dot":          {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: .shop`), refused: tlsSecret},
	"hnp tls secret empty":                       {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: ""`), refused: "spec.domains[0].tls.secretName"},
	"hnp tls secret too long":                    {kind: "NetworkPolicy", patch: encrypted(`mode: ListenerSet, secretName: ` + long(254)), refused: "spec.domains[0].tls.secretName: Too long"},
	"hnp tls issuer":                             {kind: "NetworkPolicy", patch: issuer(`name: ca`)},
	"hnp tls cluster issuer":                     {kind: "NetworkPolicy", patch: issuer(`name: ca, kind: ClusterIssuer, group: cert-manager.io`)},
	"hnp tls issuer from another group":          {kind: "NetworkPolicy", patch: issuer(`name: ca, kind: AWSPCAClusterIssuer, group: awspca.cert-manager.io`)},
	"hnp tls issuer's kind unknown":              {kind: "NetworkPolicy", patch: issuer(`name: ca, kind: AWSPCAClusterIssuer`), refused: "issuerRef.kind must be Issuer or ClusterIssuer"},
	"hnp tls issuer's kind invalid":              {kind: "NetworkPolicy", patch: issuer(`name: ca, kind: "a b", group: example.com`), refused: "spec.domains[0].tls.issuerRef.kind"},
	"hnp tls issuer's kind too long":             {kind: "NetworkPolicy", patch: issuer(`name: ca, group: example.com, kind: ` + long(64)), refused: "spec.domains[0].tls.issuerRef.kind: Too long"},
	"hnp tls issuer without name":                {kind: "NetworkPolicy", patch: issuer(`kind: Issuer`), refused: "spec.domains[0].tls.issuerRef.name: Required value"},
	"hnp tls issuer's name empty":                {kind: "NetworkPolicy", patch: issuer(`name: ""`), refused: "spec.domains[0].tls.issuerRef.name"},
	"hnp tls issuer's name too long":             {kind: "NetworkPolicy", patch: issuer(`name: ` + long(254)), refused: "spec.domains[0].tls.issuerRef.name: Too long"},
	"hnp tls issuer's group empty":               {kind: "NetworkPolicy", patch: issuer(`name: ca, group: ""`), refused: "spec.domains[0].tls.issuerRef.group"},
	"hnp tls issuer's group too long":            {kind: "NetworkPolicy", patch: issuer(`name: ca, group: ` + long(254)), refused: "spec.domains[0].tls.issuerRef.group: Too long"},
	"hnp tls issuer without secret":              {kind: "NetworkPolicy", patch: encryptedBy(classNginx, `issuerRef: {name: ca}`), refused: "spec.domains[].tls.issuerRef requires secretName"},
	"hnp tls ingress":                            {kind: "NetworkPolicy", patch: encryptedBy(classNginx, `secretName: a`)},
	"hnp tls ingress, mode Ingress":              {kind: "NetworkPolicy", patch: encryptedBy(classNginx, `mode: Ingress, secretName: a`)},
	"hnp tls ingress, no secret":                 {kind: "NetworkPolicy", patch: encryptedBy(classNginx, ``), refused: tlsNeeded},
	"hnp tls ingress, mode Gateway":              {kind: "NetworkPolicy", patch: encryptedBy(classNginx, `mode: Gateway`), refused: tlsMode},
	"hnp tls ingress, mode ListenerSet":          {kind: "NetworkPolicy", patch: encryptedBy(classNginx, `mode: ListenerSet, secretName: a`), refused: tlsMode},
	"hnp tls gateway, mode Ingress":              {kind: "NetworkPolicy", patch: encrypted(`mode: Ingress, secretName: a`), refused: tlsMode},
	"hnp tls apisix":                             {kind: "NetworkPolicy", patch: encryptedBy(`apisix: {}`, `secretName: a`)},
	"hnp tls apisix, mode ApisixTls":             {kind: "NetworkPolicy", patch: encryptedBy(`apisix: {}`, `mode: ApisixTls, secretName: a`)},
	"hnp tls apisix, mode Ingress":               {kind: "NetworkPolicy", patch: encryptedBy(`apisix: {}`, `mode: Ingress, secretName: a`), refused: tlsMode},
	"hnp tls for a port that passes TLS through": {kind: "NetworkPolicy", patch: onPort("TLS", `, tls: {mode: Gateway}`), refused: "spec.domains[].tls cannot be combined with a port with protocol TLS"},
	"hnp tls for gRPC":                           {kind: "NetworkPolicy", patch: onPort("GRPC", `, tls: {mode: Gateway}`)},
	"hnp 64 domains with tls": {kind: "NetworkPolicy", patch: `spec: {domains: [` + strings.TrimSuffix(strings.Repeat(
		`{domain: shop.example.com, tls: {mode: ListenerSet, secretName: "{{.ReleaseGroupName}}", issuerRef: {name: a, kind: ClusterIssuer}}},`, 64), ",") + `]}`},
	"hnp record":                    {kind: "NetworkPolicy", patch: domain(`recordTTLSeconds: 1`)},
	"hnp record, longest TTL":       {kind: "NetworkPolicy", patch: domain(`recordTTLSeconds: 2147483647`)},
	"hnp record with TTL zero":      {kind: "NetworkPolicy", patch: domain(`recordTTLSeconds: 0`), refused: "spec.domains[0].recordTTLSeconds"},
	"hnp record, TTL too long":      {kind: "NetworkPolicy", patch: domain(`recordTTLSeconds: 2147483648`), refused: "spec.domains[0].recordTTLSeconds"},
	"hnp record, TTL as a duration": {kind: "NetworkPolicy", patch: domain(`recordTTLSeconds: 5m`), refused: "recordTTLSeconds"},
	"hnp record with apisix":        {kind: "NetworkPolicy", patch: `spec: {provider: {gateway: null, apisix: {}}, domains: [{domain: shop.example.com, recordTTLSeconds: 60}]}`},
}
