package notify

import (
	"strings"
	"testing"
)

// TestHidePartsOfTheURL covers responses that repeat a part of the secret URL, as responses of web servers and APIs do.
func TestHidePartsOfTheURL(t *testing.T) {
	t.Parallel()
	c := Credentials{URL: "https://chat.example.com/api/webhooks/1234/s3cr3tT0ken"}
	for _, answer := range []string{
		"Unknown webhook token s3cr3tT0ken", `{"path":"\/api\/webhooks\/1234\/s3cr3tT0ken"}`, "no route webhooks/1234/s3cr3tT0ken", c.URL,
	} {
		if got := c.hide(answer); strings.Contains(got, "s3cr3tT0ken") {
			t.Errorf("shown in the status: %s", got)
		}
	}
	signed := Credentials{URL: "https://prod-1.example.com/workflows/abc/invoke?api-version=2016&sig=Zq7%2BsecretPart%2Ftail"}
	for _, answer := range []string{"bad signature in ?api-version=2016&amp;sig=Zq7%2BsecretPart%2Ftail", "sig=Zq7%2BsecretPart%2Ftail does not match"} {
		if got := signed.hide(answer); strings.Contains(got, "secretPart") {
			t.Errorf("shown in the status: %s", got)
		}
	}
	if got := c.hide("the webhook is unknown to chat.example.com"); got != "the webhook is unknown to chat.example.com" {
		t.Errorf("hidden: %s", got)
	}
}
