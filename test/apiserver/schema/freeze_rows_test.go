package schema_test

import "strings"

// calendar returns a patch with a list of periods instead of an end.
func calendar(periods string) string { return `spec: {until: null, periods: [` + periods + `]}` }

// rulesRows apply both to Freezes and to ClusterFreezes. For ClusterFreezes, AT is replaced with the namespace
// of an exception. For Freezes, AT is removed.
var rulesRows = map[string]row{
	"":                                   {},
	" all fields":                        {patch: `spec: {selector: {matchLabels: {tier: web}}, exceptions: [{AT name: shop, reason: hotfix}]}`},
	" periods":                           {patch: calendar(`{from: "2026-12-20T00:00:00Z", to: "2027-01-04T08:00:00+01:00", reason: holidays}`)},
	" indefinite":                        {patch: `spec: {until: null, indefinite: true}`},
	" indefinite false":                  {patch: `spec: {indefinite: false}`},
	" without an end":                    {patch: `spec: {until: null}`, refused: "set exactly one of until, periods and indefinite: a freeze without an end needs indefinite: true"},
	" indefinite false alone":            {patch: `spec: {until: null, indefinite: false}`, refused: "set exactly one of until, periods and indefinite"},
	" two ends":                          {patch: `spec: {indefinite: true}`, refused: "set exactly one of until, periods and indefinite"},
	" until and periods":                 {patch: `spec: {periods: [{from: "2026-12-20T00:00:00Z", to: "2027-01-04T08:00:00Z"}]}`, refused: "set exactly one of until, periods and indefinite"},
	" no reason":                         {patch: `spec: {reason: null}`, refused: "spec.reason: Required value"},
	" empty reason":                      {patch: `spec: {reason: ""}`, refused: "spec.reason"},
	" longest reason":                    {patch: `spec: {reason: ` + long(128) + `}`},
	" reason too long":                   {patch: `spec: {reason: ` + long(129) + `}`, refused: "spec.reason: Too long"},
	" no time":                           {patch: `spec: {until: tomorrow}`, refused: "spec.until"},
	" period that ends before it begins": {patch: calendar(`{from: "2027-01-04T00:00:00Z", to: "2026-12-20T00:00:00Z"}`), refused: "spec.periods: to must be after from"},
	" period without a duration":         {patch: calendar(`{from: "2027-01-04T00:00:00Z", to: "2027-01-04T00:00:00Z"}`), refused: "spec.periods: to must be after from"},
	" period without an end":             {patch: calendar(`{from: "2027-01-04T00:00:00Z"}`), refused: "spec.periods[0].to: Required value"},
	" period without a beginning":        {patch: calendar(`{to: "2027-01-04T00:00:00Z"}`), refused: "spec.periods[0].from: Required value"},
	" period reason too long":            {patch: calendar(`{from: "2026-12-20T00:00:00Z", to: "2027-01-04T08:00:00Z", reason: ` + long(129) + `}`), refused: "spec.periods[0].reason: Too long"},
	" no periods":                        {patch: calendar(""), refused: "spec.periods"},
	" most periods":                      {patch: strings.Replace(calendar("P"), "[P]", repeat(`{from: "2026-12-20T00:00:00Z", to: "2027-01-04T08:00:00Z"}`, 64), 1)},
	" too many periods":                  {patch: strings.Replace(calendar("P"), "[P]", repeat(`{from: "2026-12-20T00:00:00Z", to: "2027-01-04T08:00:00Z"}`, 65), 1), refused: "spec.periods: Too many"},
	" exception without reason":          {patch: `spec: {exceptions: [{AT name: shop}]}`, refused: "spec.exceptions[0].reason: Required value"},
	" exception, empty reason":           {patch: `spec: {exceptions: [{AT name: shop, reason: ""}]}`, refused: "spec.exceptions[0].reason"},
	" exception, empty name":             {patch: `spec: {exceptions: [{AT name: "", reason: hotfix}]}`, refused: "spec.exceptions[0].name"},
	" exception, name too long":          {patch: `spec: {exceptions: [{AT name: ` + long(254) + `, reason: hotfix}]}`, refused: "spec.exceptions[0].name: Too long"},
	" exception, long reason":            {patch: `spec: {exceptions: [{AT name: shop, reason: ` + long(129) + `}]}`, refused: "spec.exceptions[0].reason: Too long"},
	" exception twice":                   {patch: `spec: {exceptions: [{AT name: shop, reason: a}, {AT name: shop, reason: b}]}`, refused: "spec.exceptions[1]: Duplicate value"},
	" most exceptions":                   {patch: `spec: {exceptions: ` + numbered(`{AT name: s#, reason: hotfix}`, 64) + `}`},
	" too many exceptions":               {patch: `spec: {exceptions: ` + numbered(`{AT name: s#, reason: hotfix}`, 65) + `}`, refused: "spec.exceptions: Too many"},
	" unknown field begin":               {patch: `spec: {until: null, periods: [{begin: "2026-12-20T00:00:00Z"}]}`, refused: "unknown field"},
}

// freezeRows returns the rows of Freezes and ClusterFreezes.
func freezeRows() map[string]row {
	out := map[string]row{
		"cfrz namespaces":                    {kind: "ClusterFreeze", patch: "metadata: {name: namespaces}\nspec: {namespaceSelector: {matchLabels: {stage: prod}}}"},
		"cfrz two namespaces":                {kind: "ClusterFreeze", patch: "metadata: {name: two-namespaces}\nspec: {exceptions: [{namespace: a, name: shop, reason: hotfix}, {namespace: b, name: shop, reason: hotfix}]}"},
		"cfrz exception without a namespace": {kind: "ClusterFreeze", patch: `spec: {exceptions: [{name: shop, reason: hotfix}]}`, refused: "spec.exceptions[0].namespace: Required value"},
		"cfrz exception, empty namespace":    {kind: "ClusterFreeze", patch: `spec: {exceptions: [{namespace: "", name: shop, reason: hotfix}]}`, refused: "spec.exceptions[0].namespace"},
		"cfrz exception, namespace too long": {kind: "ClusterFreeze", patch: `spec: {exceptions: [{namespace: ` + long(64) + `, name: shop, reason: hotfix}]}`, refused: "spec.exceptions[0].namespace: Too long"},
		"frz exception, a namespace":         {kind: "Freeze", patch: `spec: {exceptions: [{namespace: a, name: shop, reason: hotfix}]}`, refused: "unknown field"},
	}
	for name, r := range rulesRows {
		out["frz"+name] = row{kind: "Freeze", patch: strings.ReplaceAll(r.patch, "AT ", ""), refused: r.refused}
		// ClusterFreezes need different names, because the rows share the cluster.
		unique := "metadata: {name: row" + strings.NewReplacer(" ", "-", ",", "").Replace(name) + "}\n"
		out["cfrz"+name] = row{kind: "ClusterFreeze", patch: unique + strings.ReplaceAll(r.patch, "AT ", "namespace: a, "), refused: r.refused}
	}
	return out
}
