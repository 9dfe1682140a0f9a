package words

// banned lists the words and phrases that this tree must not use, with their replacements.
//
// A phrase is matched word by word, in lower case, within a sentence. "a/b" matches either word, "~" matches
// at most one word of any kind, and "!a/b" excludes these words before or after the phrase. A colon is part
// of the word that it follows.
var banned = []struct{ phrase, write string }{
	// Concepts.
	{"comer/comers", "release, incoming group"},
	{"child/children !object/objects/resource/resources", "release (one version), child objects (what a controller owns)"},
	{"lane/lanes", "release group, group"},
	{"version/semver/release stream/streams", "release group, group"},
	{"stream/streams of version/versions/releases", "release group, group"},
	{"led", "routes to, targets"},
	{"lead/leads !time/times", "route to, point to"},
	{"under way", "in progress; canary"},
	{"underway", "in progress; canary"},
	{"on its/their way", "in progress"},
	{"former", "previous; retained release"},
	{"kept release/releases/version/versions/one/ones", "retained release"},
	{"of before", "previous"},
	{"take/takes/taken/took/taking ~ back", "roll back"},
	{"turn/turns/turned/turning ~ down", "reject, abort"},
	{"give/gives/given/gave/giving ~ up", "abort, stop, end"},
	{"overtake/overtakes/overtaken/overtook", "supersede"},
	{"make/makes/made/making room", "superseded"},
	{"carried !out", "programmed; routed; copied"},
	{"route/routes/domain/domains/policy/policies/gateway/gateways/rule/rules carry/carries", "route to"},
	{"mask/masks/masked/masking", "withhold"},
	{"look/looks !up/at/for/like/into/as/through/inside/path", "scan, poll; check whether"},
	{"look again", "requeue after"},
	{"wake/wakes/woke/woken/waking", "requeue after, notify"},
	{"ledger/ledgers", "rollout state"},
	{"book/books", "rollout state"},
	{"mend/mends/mended/mending", "fix; in types Remedy"},
	{"tell/tells/told/telling", "report, show, record"},
	{"hold/holds/held/holding ~ up", "block; blocked by"},
	{"!in places", "preview slots; slots"},
	{"a/no/free place", "preview slot; slot"},
	{"at rest", "stable"},
	{"calm", "stable"},
	{"hold/holds/held/holding back", "ensureFinalizer; keep"},

	// Phrases.
	{"say/says/said/saying that/whether/what/which/so/how/why/when/where/who", "report whether, show"},
	{"go/goes/gone/going/went on", "continue"},
	{"nobody/somebody/whoever/whomever", "no one else, another user, a user; the passive"},
	{"!there is/are/was/were no !longer/more/match", "is not a"},
	{"of its/their/his/your/our own", "its own, your"},
	{"of yours/ours/theirs", "your, our, their"},
	{"the own", "its own, your own"},
	{"beside", "next to; in addition to"},
	{"by itself/themselves", "automatically"},
	{"at once", "immediately; concurrently; at the same time"},
	{"anew", "again"},
	{"serve/serves/served on !port/ports/a/the/its/loopback", "keep serving"},
	{"is/are left", "remains; is omitted"},
	{"for want of", "because there is no"},
	{"!when absent:", "Defaults to"},
	{"he/him/his/she/her", "they, their"},
	{"a/its/the/with verdict", "exits non-zero on failure; result, decision"},
}

// exceptions are the places in which a word from the list is allowed.
var exceptions = []struct{ path, phrase, why string }{
	{"test/words/", "", "the list"},
	{"docs/design/api-changes.md", "", "names what was renamed"},
	{"CHANGELOG.md", "", "names what was renamed"},
	{"internal/web/assets/board.css", "", "CSS selectors"},
	{"apis/v1alpha1/earlier_status.go", "overtake/overtakes/overtaken/overtook", "a field of earlier versions"},
	{"apis/v1alpha1/microservicestatus_types.go", "overtake/overtakes/overtaken/overtook", "a field of earlier versions"},
	{"internal/view/group_state.go", "turn/turns/turned/turning ~ down", "a reason that earlier versions stored"},
	{"controllers/networkpolicy/", "ledger/ledgers", "the annotation hlnr.io/ledger, and its key in hlnr.io/rules.NAME"},
	{"controllers/microservice/state.go", "a/no/free place", "a stored reason that was renamed"},
	{"controllers/microservice/state.go", "overtake/overtakes/overtaken/overtook", "a stored reason that was renamed"},
	{"controllers/microservice/state.go", "turn/turns/turned/turning ~ down", "a stored reason that was renamed"},
	{"controllers/microservice/state.go", "by itself/themselves", "a stored reason that was renamed"},
	{"controllers/versionedmicroservice/status.go", "turn/turns/turned/turning ~ down", "a stored reason that was renamed"},
	{"internal/outbound/address.go", "mask/masks/masked/masking", "a method of net/netip"},
	{"test/apiserver/earlier.go", "overtake/overtakes/overtaken/overtook", "a field of earlier versions"},
	{"docs/reference/labels-and-annotations.md", "ledger/ledgers", "the annotation hlnr.io/ledger"},
}
