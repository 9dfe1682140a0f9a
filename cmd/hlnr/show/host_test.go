package show

import "testing"

// TestHostOf checks that the host and the path in an argument are parsed as a browser parses an address.
func TestHostOf(t *testing.T) {
	t.Parallel()
	for q, want := range map[string][2]string{
		"https://shop.example.com":                 {"shop.example.com", "/"},
		"HTTPS://SHOP.example.com:8443/cart?x=1#a": {"shop.example.com", "/cart"},
		"https://ana:secret@shop.example.com/":     {"shop.example.com", "/"},
		"shop.example.com":                         {"shop.example.com", "/"},
		"shop.example.com.":                        {"shop.example.com", "/"},
		"shop.example.com:8443":                    {"shop.example.com", "/"},
		"shop.example.com/cart?x=1":                {"shop.example.com", "/cart"},
		"shop.example.com?x=1":                     {"shop.example.com", "/"},
		"shop.example.com/cart#top":                {"shop.example.com", "/cart"},
		"*.example.com":                            {"*.example.com", "/"},
		"münchen.example":                          {"xn--mnchen-3ya.example", "/"},
		"https://MÜNCHEN.example/straße":           {"xn--mnchen-3ya.example", "/stra%C3%9Fe"},
		"localhost:8080":                           {"localhost", "/"},
		"my_host.example.com":                      {"my_host.example.com", "/"},
		"1.2.0":                                    {"", ""},
		"1.2":                                      {"", ""},
		"v1":                                       {"", ""},
		"shop":                                     {"", ""},
		"pod/shop-1":                               {"", ""},
		"pr/17":                                    {"", ""},
		"https://":                                 {"", ""},
	} {
		if host, path := hostOf([]string{q}); host != want[0] || path != want[1] {
			t.Errorf("%s: %q and %q, want %q", q, host, path, want)
		}
	}
}

// TestSchemeOf checks that only a URL has a scheme.
func TestSchemeOf(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]string{"HTTPS://shop.example.com/cart": "https", "tls://shop.example.com": "tls", "shop.example.com:8443/cart": "", "shop.example.com": ""} {
		if got := schemeOf(q); got != want {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
}
