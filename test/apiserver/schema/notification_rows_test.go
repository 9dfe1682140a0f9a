package schema_test

// receiver is a policy with one receiver of these fields.
func receiver(fields string) string { return `spec: {receivers: [{` + fields + `}]}` }

// notificationRows are those of NotificationPolicies.
var notificationRows = map[string]row{
	"ntfp smallest":    {kind: "NotificationPolicy"},
	"ntfp all fields":  {kind: "NotificationPolicy", patch: `spec: {suspend: true, selector: {matchLabels: {tier: web}}, namespaceSelector: {}, previews: true, boardURL: "https://board.example.com/x"}`},
	"ntfp a receiver":  {kind: "NotificationPolicy", patch: receiver(`name: chat, type: Webhook, url: "http://chat.example.com:8080/in?x=1", secretRef: {name: chat}, caSecretRef: {name: ca}, events: [Started, Step, Waiting, Promoted, Restored, RolledBack, Failed, Aborted, Superseded, Removed, Deprecated], template: "{{.title}}", contentType: text/plain; charset=utf-8`)},
	"ntfp cloudevents": {kind: "NotificationPolicy", patch: receiver(`name: bus, type: CloudEvents, secretRef: {name: bus}`)},

	"ntfp no receivers":          {kind: "NotificationPolicy", patch: `spec: {receivers: null}`, refused: "spec.receivers: Required value"},
	"ntfp empty receivers":       {kind: "NotificationPolicy", patch: `spec: {receivers: []}`, refused: "spec.receivers"},
	"ntfp most receivers":        {kind: "NotificationPolicy", patch: `spec: {receivers: ` + numbered(`{name: r#, type: Webhook, url: "https://a.example.com"}`, 8) + `}`},
	"ntfp too many receivers":    {kind: "NotificationPolicy", patch: `spec: {receivers: ` + numbered(`{name: r#, type: Webhook, url: "https://a.example.com"}`, 9) + `}`, refused: "spec.receivers: Too many"},
	"ntfp receiver twice":        {kind: "NotificationPolicy", patch: `spec: {receivers: [{name: a, type: Webhook, url: "https://a.example.com"}, {name: a, type: Webhook, url: "https://a.example.com"}]}`, refused: "spec.receivers[1]: Duplicate value"},
	"ntfp receiver, no name":     {kind: "NotificationPolicy", patch: receiver(`type: Webhook, url: "https://a.example.com"`), refused: "spec.receivers[0].name: Required value"},
	"ntfp receiver, wrong name":  {kind: "NotificationPolicy", patch: receiver(`name: A, type: Webhook, url: "https://a.example.com"`), refused: "the name of a receiver must consist of"},
	"ntfp receiver, long name":   {kind: "NotificationPolicy", patch: receiver(`name: ` + long(64) + `, type: Webhook, url: "https://a.example.com"`), refused: "spec.receivers[0].name: Too long"},
	"ntfp receiver, no type":     {kind: "NotificationPolicy", patch: receiver(`name: a, url: "https://a.example.com"`), refused: "spec.receivers[0].type: Required value"},
	"ntfp receiver, wrong type":  {kind: "NotificationPolicy", patch: receiver(`name: a, type: Pigeon, url: "https://a.example.com"`), refused: "spec.receivers[0].type"},
	"ntfp no address":            {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook`), refused: "set url, or secretRef with a Secret that has the key url"},
	"ntfp url with a password":   {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://ana:secret@a.example.com"`), refused: "url must be an absolute http or https URL"},
	"ntfp url of a file":         {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "file:///etc/passwd"`), refused: "url must be an absolute http or https URL"},
	"ntfp url with a fragment":   {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com/#b"`), refused: "url must be an absolute http or https URL"},
	"ntfp url too long":          {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com/` + long(1024) + `"`), refused: "spec.receivers[0].url: Too long"},
	"ntfp secret of a namespace": {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, secretRef: {name: a, namespace: b}`), refused: "unknown field"},
	"ntfp secret without name":   {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, secretRef: {name: ""}`), refused: "spec.receivers[0].secretRef.name"},
	"ntfp secret, long name":     {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, secretRef: {name: ` + long(254) + `}`), refused: "spec.receivers[0].secretRef.name: Too long"},
	"ntfp ca without name":       {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", caSecretRef: {name: ""}`), refused: "spec.receivers[0].caSecretRef.name"},
	"ntfp ca, long name":         {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", caSecretRef: {name: ` + long(254) + `}`), refused: "spec.receivers[0].caSecretRef.name: Too long"},
	"ntfp unknown event":         {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", events: [Born]`), refused: "spec.receivers[0].events[0]"},
	"ntfp no events":             {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", events: []`), refused: "spec.receivers[0].events"},
	"ntfp event twice":           {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", events: [Failed, Failed]`), refused: "spec.receivers[0].events[1]: Duplicate value"},
	"ntfp template of another":   {kind: "NotificationPolicy", patch: receiver(`name: a, type: CloudEvents, url: "https://a.example.com", template: x`), refused: "template and contentType are allowed only for the type Webhook"},
	"ntfp content of another":    {kind: "NotificationPolicy", patch: receiver(`name: a, type: CloudEvents, url: "https://a.example.com", contentType: text/plain`), refused: "template and contentType are allowed only for the type Webhook"},
	"ntfp longest template":      {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", template: ` + long(8192))},
	"ntfp template too long":     {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", template: ` + long(8193)), refused: "spec.receivers[0].template: Too long"},
	"ntfp empty template":        {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", template: ""`), refused: "spec.receivers[0].template"},
	"ntfp content of two lines":  {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", contentType: "text/plain\r\nx: y"`), refused: "contentType must be a media type"},
	"ntfp content type too long": {kind: "NotificationPolicy", patch: receiver(`name: a, type: Webhook, url: "https://a.example.com", contentType: a/` + long(127)), refused: "spec.receivers[0].contentType: Too long"},
	"ntfp board with a query":    {kind: "NotificationPolicy", patch: `spec: {boardURL: "https://board.example.com/?a=b"}`, refused: "boardURL must be an absolute http or https URL"},
	"ntfp board of a script":     {kind: "NotificationPolicy", patch: `spec: {boardURL: "javascript:alert(1)"}`, refused: "boardURL must be an absolute http or https URL"},
	"ntfp board too long":        {kind: "NotificationPolicy", patch: `spec: {boardURL: "https://a.example.com/` + long(512) + `"}`, refused: "spec.boardURL: Too long"},
}
