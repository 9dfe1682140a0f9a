package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

const sha = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestCleanText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// Addresses.
		`dial HTTPS://bob:pw@h failed`:                             `dial HTTPS://(removed)@h failed`,
		`dial https://bob:pw/x@h: refused`:                         `dial https://(removed)@h: refused`,
		`dial https://bob:p@x@h`:                                   `dial https://(removed)@h`,
		`pull oci://bob:pw@r.example/shop` + sha:                   `pull oci://(removed)@r.example/shop` + sha,
		`parse "x": invalid port ":hunter2" after host`:            `parse "x": invalid port ":(removed)" after host`,
		`Post "https://hooks.slack.com/services/T0/B0/x": timeout`: `Post "https://hooks.slack.com/(removed)": timeout`,
		`to HOOKS.slack.com/services/T0/B0/x`:                      `to HOOKS.slack.com/(removed)`,
		`https://h/live?a=hunter2&b=hunter2`:                       `https://h/live?a=(removed)&b=(removed)`,
		// Keys with values.
		`body {\"password\":\"hunter2\",\"user\":\"ana\"}`: `body {\"password\":(removed),\"user\":\"ana\"}`,
		`body {\"password\":\"hunt\\\"er2\",\"a\":\"b\"}`:  `body {\"password\":(removed),\"a\":\"b\"}`,
		`body {"password":"hunt\"er2","user":"ana"}`:       `body {"password":(removed),"user":"ana"}`,
		`body {"password":"hunter2 and it is cu`:           `body {"password":(removed)`,
		`body {"auths":{"r":{"auth":"aHVudGVyMg=="}}}`:     `body {"auths":{"r":{"auth":(removed)}}}`,
		`%22password%22%3A%22hunter2%22`:                   `%22password%22%3A(removed)`,
		`DB_PWD=hunter2 failed`:                            `DB_PWD=(removed) failed`,
		`DSN=bob:pw@tcp(db:3306)/shop failed`:              `DSN=(removed) failed`,
		`open bob:pw@tcp(db:3306)/shop: refused`:           `open (removed)@tcp(db:3306)/shop: refused`,
		`PGPASSWORD=a,rest failed`:                         `PGPASSWORD=(removed) failed`,
		`password => hunter2 failed`:                       `password => (removed) failed`,
		`auth=hunter2`:                                     `auth=(removed)`,
		`key=hunter2`:                                      `key=(removed)`,
		`sshKey=hunter2`:                                   `sshKey=(removed)`,
		`access_key=hunter2`:                               `access_key=(removed)`,
		`signature=hunter2`:                                `signature=(removed)`,
		`X-Amz-Signature=hunter2`:                          `X-Amz-Signature=(removed)`,
		`next=/x%3Ftoken%3Dhunter2`:                        `next=/x%3Ftoken%3D(removed)`,
		`next=/x%253Ftoken%253Dhunter2`:                    `next=/x%253Ftoken%253D(removed)`,
		// Headers and sentences.
		`Authorization: Token hunter2`:            `Authorization: (removed)`,
		`{"Authorization":"Token hunter2","a":1}`: `{"Authorization":(removed),"a":1}`,
		`Cookie: sid=hunter2; other=hunter2`:      `Cookie: (removed)`,
		"Set-Cookie: sid=hunter2\nServer: x":      "Set-Cookie: (removed)\nServer: x",
		`login with password hunter2`:             `login with password (removed)`,
		`login with --api-token hunter2`:          `login with --api-token (removed)`,
		`the password is "hunter2"`:               `the password is (removed)`,
		`header Bearer abcdef`:                    `header Bearer (removed)`,
		// Tokens.
		`x npm_0123456789abcdefghij0123456789abcdef y`:  `x (removed) y`,
		`x dckr_pat_0123456789abcdefghij y`:             `x (removed) y`,
		`x hvs.CAESIJ0123456789abcdefghij y`:            `x (removed) y`,
		`x sk_live_0123456789abcdefghij y`:              `x (removed) y`,
		`x ghp_0123456789abcdefghijABCDEFGHIJ012345 y`:  `x (removed) y`,
		`x github_pat_0123456789abcdefghijABCDEFGHIJ y`: `x (removed) y`,
	} {
		if got := cleanText(text); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
	for _, text := range []string{
		"key nodes",
		"duplicate key value violates unique constraint, primary key id",
		`the Secret has no key "password"`,
		"author ana approved",
		"author=ana",
		"authority: example.com",
		"3 tests passed: 2 skipped",
		"monkey: 3",
		"password authentication failed for user ana",
		"the password is not set",
		"Basic authentication is not supported",
		"unauthorized: authentication required",
		"no matching signatures",
		"signature: no match",
		"r.example/shop:1.0.0" + sha,
		"https://r.example/v2/shop" + sha + " not found",
		"oci://r.example/shop:1.0.0" + sha,
		`Get "https://r.example/v2/": dial tcp 10.0.0.1:443: connect: connection refused`,
		"http://prometheus.example:9090 responds",
		"npm_config_registry is not set",
		"release shop-1-0-0 is stable, weight 10, 2 of 3 ready",
		"mail to ana@example.com",
	} {
		if got := cleanText(text); got != text {
			t.Errorf("an ordinary message %q became %q", text, got)
		}
	}
}

// TestCleanFields checks that a report contains no user values from the fields of pods, volumes and hooks.
func TestCleanFields(t *testing.T) {
	t.Parallel()
	get := &corev1.HTTPGetAction{Path: "/live", HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Team", Value: "hunter2"}}}
	handler := corev1.ProbeHandler{HTTPGet: get}
	probe := &corev1.Probe{ProbeHandler: handler}
	lifecycle := &corev1.LifecycleHandler{HTTPGet: get}
	for name, test := range map[string]struct {
		plant func(*v1alpha1.Microservice)
		kept  string
	}{
		"liveness":  {func(ms *v1alpha1.Microservice) { ms.Spec.Template.Spec.Containers[0].LivenessProbe = probe }, "name: X-Team"},
		"readiness": {func(ms *v1alpha1.Microservice) { ms.Spec.Template.Spec.Containers[0].ReadinessProbe = probe }, "name: X-Team"},
		"startup":   {func(ms *v1alpha1.Microservice) { ms.Spec.Template.Spec.Containers[0].StartupProbe = probe }, "name: X-Team"},
		"post start": {func(ms *v1alpha1.Microservice) {
			ms.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: lifecycle}
		}, "path: /live"},
		"pre stop": {func(ms *v1alpha1.Microservice) {
			ms.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: lifecycle}
		}, "path: /live"},
		"csi": {func(ms *v1alpha1.Microservice) {
			ms.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: "csi.example.com", VolumeAttributes: map[string]string{"share": "hunter2", "key": "hunter2", "name": "hunter2"},
			}}}}
		}, "driver: csi.example.com"},
		"flex": {func(ms *v1alpha1.Microservice) {
			ms.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{
				Driver: "example.com/flex", Options: map[string]string{"share": "hunter2", "key": "hunter2"},
			}}}}
		}, "driver: example.com/flex"},
		"hooks": {func(ms *v1alpha1.Microservice) {
			ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Hooks: []v1alpha1.Hook{{
				Name: "gate", URL: "https://ci.example.com/gate", Metadata: map[string]v1alpha1.HookMetadataValue{"team": "hunter2", "key": "hunter2", "name": "hunter2"},
			}}}
		}, "team: (removed)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
			ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: "shop"}}
			test.plant(ms)
			if raw, err := json.Marshal(ms); err != nil || !strings.Contains(string(raw), "hunter2") {
				t.Fatalf("nothing is planted: %v", err)
			}
			files, err := reportFiles(&Result{}, []client.Object{ms})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if strings.Contains(string(f.text), "hunter2") {
					t.Errorf("%s has a secret:\n%s", f.name, f.text)
				}
			}
			if object := string(files[len(files)-1].text); !strings.Contains(object, test.kept) || !strings.Contains(object, "name: shop") {
				t.Errorf("the report lacks %q:\n%s", test.kept, object)
			}
		})
	}
}
