package doctor

import (
	"regexp"
	"strings"
	"sync"
)

// removed is the text that replaces the values removed from a report.
const removed = "(removed)"

// secret is a pattern that matches secrets in text, and the replacement for each match.
type secret struct {
	form *regexp.Regexp
	with string
}

// The parts of the patterns for keys with values. Quotes and separators can be escaped, as in JSON within JSON or in
// addresses. Truncated text can lack the closing quote.
const (
	quote     = `(?:\\*["']|%(?:25)*2[27])?`
	separator = `\s*(?:=>|[:=]+|%(?:25)*3[ad])\s*`
	quoted    = `\\+"(?:[^"\\]|\\\\(?:\\["\\]|[^"\\]))*(?:\\+"|\\*$)|"(?:[^"\\]|\\[\s\S])*(?:"|\\?$)|'[^']*(?:'|$)`
	value     = `(?:` + quoted + `|\S+)`
)

// secrets returns the patterns that match secrets in text. They are compiled on first use, because compiling them earlier
// would delay the start of all commands by milliseconds.
var secrets = sync.OnceValue(func() []secret {
	return []secret{
		{regexp.MustCompile(`-----BEGIN [A-Z ]*-----[\s\S]*?(-----END [A-Z ]*-----|$)`), removed},
		{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`), removed},                                                                                                      // JSON Web Tokens
		{regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}`), removed},                                                                               // tokens of GitHub and GitLab
		{regexp.MustCompile(`npm_[A-Za-z0-9]{16,}|dckr_(pat|oat)_[A-Za-z0-9_-]{10,}|\bhv[sbr]\.[A-Za-z0-9_-]{10,}`), removed},                                                                           // tokens of registries and of Vault
		{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), removed},                                                                                                                                    // access keys of AWS
		{regexp.MustCompile(`\b(xox[abposr]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,})`), removed},                                                                                 // tokens of Slack and Google, and keys with the prefix sk-
		{regexp.MustCompile(`[rsp]k_(live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{8,}`), removed},                                                                                                    // Stripe keys and webhook secrets
		{regexp.MustCompile(`(?i)((?:hooks\.slack\.com|discord(?:app)?\.com|[a-z0-9-]+\.webhook\.office\.com)(?:/|%(?:25)*2f))[^\s"'<>]+`), "${1}" + removed},                                           // webhook addresses that contain a secret
		{regexp.MustCompile(`(?i)(\b(?:authorization|(?:set-)?cookie)` + quote + separator + `)(?:` + quoted + `|[^\r\n]+)`), "${1}" + removed},                                                         // headers
		{regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:password|passwd|passphrase|pwd|secret|token|credential|api[_-]?key|private[_-]?key)[a-z0-9_.-]*` + quote + separator + `)` + value), "${1}" + removed}, // key=value
		{regexp.MustCompile(`(?i)(\b(?:[a-z0-9_.-]*[_.-])?(?:pass|dsn)` + quote + separator + `)` + value), "${1}" + removed},
		// Common words such as "key" and "auth" count as keys only before an equals sign, or in quotes.
		{regexp.MustCompile(`(?i)((?:\b(?:[a-z0-9_.-]*[_.-])?o?(?:auth|key|sig)|[a-z0-9_.-]*(?:access[_-]?key|signature|(?-i:[a-z0-9](?:Key|Auth))))(?:[_-]?[0-9])?` + quote + `\s*(?:=+|%(?:25)*3d)\s*)` + value), "${1}" + removed},
		{regexp.MustCompile(`(?i)(["'](?:[a-z0-9_.-]*[_.-])?(?:auth|key|sig|access[_-]?key|signature)\\*["']\s*:\s*)` + value), "${1}" + removed},
		{regexp.MustCompile(`(?i)(--[a-z0-9-]*(?:token|secret|password|passwd|-key)\s+)` + value), "${1}" + removed}, // flags
		{regexp.MustCompile(`[^\s:/"'(]+:\S*@((?:tcp6?|udp|unix)\()`), removed + "@${1}"},                            // user:password@tcp(host)
		{regexp.MustCompile(`(invalid port ":)[^"]*("? after host)`), "${1}" + removed + "${2}"},                     // an address that Go could not parse
		{regexp.MustCompile(`([?&][^=\s&#]*=)[^&\s#"']+`), "${1}" + removed},                                         // query parameters
	}
})

// address matches an absolute address. Its groups are the scheme and the rest of the address.
var address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)(\S+)`) })

// digest matches the digest of an image. An "@" before a digest does not mark the end of a user
// name and password.
var digest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha(256|384|512):[0-9a-f]{32,}`) })

// spoken matches a word such as "password" in a sentence, and the word that follows it.
var spoken = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b((?:password|passwd|passphrase|pwd|bearer|basic)\s+(?:(?:is|was)\s+)?)(` + value + `)`)
})

// ordinary contains words that often follow a word such as "password" in a sentence, and that are not
// secrets.
var ordinary = func() map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(`a about accepted access and are as at auth authentication authorization because but by cannot changed
		check credentials differs do does empty entry expired expires failed field file files for from given has hash have header if in
		incorrect into invalid is key length login longer manager match matches may mismatch missing must no not of on one only or
		policy provided realm rejected required reset rotated rotation secret set should that the there to token too unknown unset use
		user username value was were when which will with without wrong`) {
		m[word] = true
	}
	return m
}()

// cleanText removes all parts of a string that look like secrets.
func cleanText(text string) string {
	for _, s := range secrets() {
		text = s.form.ReplaceAllString(text, s.with)
	}
	text = address().ReplaceAllStringFunc(text, func(found string) string {
		parts := address().FindStringSubmatch(found)
		for at := strings.LastIndexByte(parts[2], '@'); at >= 0; at = strings.LastIndexByte(parts[2][:at], '@') {
			if !digest().MatchString(parts[2][at+1:]) {
				return parts[1] + removed + parts[2][at:]
			}
		}
		return found
	})
	return spoken().ReplaceAllStringFunc(text, func(found string) string {
		parts := spoken().FindStringSubmatch(found)
		if word := strings.ToLower(strings.Trim(parts[2], `.,;:!?()=<>"'`)); word == "" || word == "removed" || ordinary[word] {
			return found
		}
		return parts[1] + removed
	})
}

// dropped contains the fields and annotations that a report omits, because they repeat other fields or can contain secrets.
var dropped = map[string]bool{"managedFields": true, "kubectl.kubernetes.io/last-applied-configuration": true}

// valued contains the fields whose values a report omits: environment variables, headers, bodies, object data, volume attributes,
// arguments, commands, webhook secrets and CA bundles.
var valued = map[string]bool{"env": true, "headers": true, "httpHeaders": true, "volumeAttributes": true, "body": true, "data": true, "stringData": true, "binaryData": true, "args": true, "command": true, "webhookSecret": true, "caBundle": true}

// clean removes secrets from a decoded object: the values of environment variables, headers, arguments and data,
// the values of other tools' annotations, and all parts of text that look like secrets.
func clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			switch {
			case dropped[k]:
			case valued[k]:
				out[k] = blank(x)
			case k == "flexVolume":
				out[k] = cleanField(x, "options")
			case k == "hooks":
				out[k] = cleanHooks(x)
			case k == "receivers":
				out[k] = cleanReceivers(x)
			case k == "annotations":
				out[k] = cleanAnnotations(x)
			default:
				out[k] = clean(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clean(x)
		}
		return out
	case string:
		return cleanText(v)
	}
	return v
}

// cleanField removes the values in one field of an object.
func cleanField(v any, field string) any {
	m, is := clean(v).(map[string]any)
	if !is {
		return removed
	}
	if x, is := m[field]; is {
		m[field] = blank(x)
	}
	return m
}

// cleanHooks removes the values that the manager sends to hooks.
func cleanHooks(v any) any {
	list, is := v.([]any)
	if !is {
		return removed
	}
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = cleanField(item, "metadata")
	}
	return out
}

// path matches an address with a path. In the addresses of receivers, the path is a secret.
var path = regexp.MustCompile(`(?i)^([a-z]+://[^/?#]*).+$`)

// cleanReceivers keeps only the hosts of receivers' addresses, and removes the receivers' templates.
func cleanReceivers(v any) any {
	list, is := clean(v).([]any)
	if !is {
		return removed
	}
	for _, item := range list {
		r, is := item.(map[string]any)
		if !is {
			continue
		}
		if text, is := r["url"].(string); is {
			r["url"] = path.ReplaceAllString(text, "${1}/"+removed)
		}
		if _, is := r["template"]; is {
			r["template"] = removed
		}
	}
	return list
}

// cleanAnnotations keeps the annotations of hlnr.io, and removes the values of all other annotations.
func cleanAnnotations(v any) any {
	m, is := v.(map[string]any)
	if !is {
		return removed
	}
	out := map[string]any{}
	for k, x := range m {
		switch text, _ := x.(string); {
		case dropped[k]:
		case strings.HasPrefix(k, "hlnr.io/"):
			out[k] = cleanText(text)
		default:
			out[k] = removed
		}
	}
	return out
}

// blank removes the values in a field. It keeps the keys, and the names and references of list items.
func blank(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = blank(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			item, is := x.(map[string]any)
			if !is {
				out[i] = blank(x)
				continue
			}
			fields := map[string]any{}
			for k, x := range item {
				if k == "name" || k == "valueFrom" {
					fields[k] = clean(x)
				} else {
					fields[k] = blank(x)
				}
			}
			out[i] = fields
		}
		return out
	case nil:
		return nil
	}
	return removed
}
