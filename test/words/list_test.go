package words

// banned are the words and phrases that this tree does not use, with what to write instead.
//
// A phrase is matched word by word, in lower case, within a sentence. "a/b" is either word, "~" is up to one word of any kind,
// and "!a/b" is neither of these words before or after the phrase. A colon belongs to its word.
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
	{"!there is/are/was/were no !longer/more", "is not a"},
	{"of its/their/his/your/our own", "its own, your"},
	{"of yours/ours/theirs", "your, our, their"},
	{"the own", "its own, your own"},
	{"beside", "next to; in addition to"},
	{"by itself/themselves", "automatically"},
	{"at once", "immediately; at a time"},
	{"anew", "again"},
	{"serve/serves/served on !port/ports/a/the/its/loopback", "keep serving"},
	{"is/are left", "remains; is omitted"},
	{"for want of", "because there is no"},
	{"!when absent:", "Defaults to"},
	{"he/him/his/she/her", "they, their"},
	{"a/its/the/with verdict", "exits non-zero on failure; result, decision"},
}

// exceptions are the places where a word of the list is right.
var exceptions = []struct{ path, phrase, why string }{
	{"test/words/", "", "the list"},
	{"docs/design/api-changes.md", "", "names what was renamed"},
	{"CHANGELOG.md", "", "names what was renamed"},
	{"internal/web/assets/board.css", "", "selectors of CSS"},
}
