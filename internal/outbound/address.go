package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// metadata contains the addresses of cloud metadata services, which provide the credentials of a machine to its processes. These
// addresses are always denied.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // most clouds
	netip.MustParseAddr("169.254.170.2"),   // credentials of containers on AWS
	netip.MustParseAddr("169.254.170.23"),  // credentials of pods on AWS
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // credentials of pods on AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud

	netip.MustParseAddr("169.254.42.42"),      // Scaleway
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle Cloud
	netip.MustParseAddr("fd00:a9fe:a9fe::1"),  // Akamai
	netip.MustParseAddr("fe80::a9fe:a9fe"),    // OpenStack
}

// These prefixes contain addresses with an embedded IPv4 address.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96")
	siit       = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	teredo     = netip.MustParsePrefix("2001::/32")
)

// inner returns the addresses that a packet to address a can reach: the address itself and the embedded IPv4 addresses.
func inner(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	reached := []netip.Addr{a}
	if a.Is4() || a == netip.IPv6Unspecified() || a.IsLoopback() {
		return reached
	}
	b := a.As16()
	add := func(b0, b1, b2, b3 byte) { reached = append(reached, netip.AddrFrom4([4]byte{b0, b1, b2, b3})) }
	switch {
	case nat64.Contains(a), compatible.Contains(a), siit.Contains(a):
		add(b[12], b[13], b[14], b[15])
	case nat64Local.Contains(a): // RFC 6052, for prefixes of 96, 64, 56 and 48 bits; byte 8 is unused
		add(b[12], b[13], b[14], b[15])
		add(b[9], b[10], b[11], b[12])
		add(b[7], b[9], b[10], b[11])
		add(b[6], b[7], b[9], b[10])
	case sixToFour.Contains(a):
		add(b[2], b[3], b[4], b[5])
	case teredo.Contains(a): // The addresses are those of the server and of the client. All bits of the client address are inverted.
		add(b[4], b[5], b[6], b[7])
		add(^b[12], ^b[13], ^b[14], ^b[15])
	}
	if b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214
		add(b[12], b[13], b[14], b[15])
	}
	return reached
}

// IsMetadata reports whether a packet to the address can reach a metadata service, possibly
// through an IPv6 address with an embedded IPv4 address.
func IsMetadata(address netip.Addr) bool {
	return slices.ContainsFunc(inner(address), func(a netip.Addr) bool { return slices.Contains(metadata, a) })
}

// kind returns the class of an address that is denied by default, or an empty string for other
// addresses.
func kind(a netip.Addr) string {
	switch {
	case a.IsLoopback(), a.Is4() && a.As4()[0] == 127:
		return "a loopback address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "a multicast or broadcast address"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "an unspecified address"
	case nat64Local.Contains(a), siit.Contains(a), teredo.Contains(a):
		return "an address that is reached through a translator or tunnel, such as NAT64 or Teredo"
	}
	return ""
}

// checkHost rejects denied names before they are resolved.
func (p *Policy) checkHost(host string, port uint16) error {
	if p.deny.host(host, port) {
		return &RefusedError{Host: host, Why: "the host is denied", Flag: FlagDeny}
	}
	return nil
}

// check returns an error if an address of a host is not allowed.
func (p *Policy) check(host string, address netip.Addr, port uint16) error {
	refused := func(why, flag string) error {
		return &RefusedError{Host: host, Address: address, Why: why, Flag: flag}
	}
	addresses := inner(address)
	for i, a := range addresses {
		allowed := p.allow.host(host, port) || p.allow.address(a, port)
		if i > 0 && nat64Local.Contains(addresses[0]) {
			allowed = true // The embedded addresses are only guesses, so their classes are not checked.
		}
		switch {
		case slices.Contains(metadata, a):
			return refused("it is the address of a metadata service", "")
		case p.deny.address(a, port):
			return refused("it is denied", FlagDeny)
		case kind(a) != "" && !allowed:
			return refused("it is "+kind(a), FlagAllow)
		}
	}
	return nil
}

// list contains the entries of a flag.
type list struct {
	prefixes []prefixEntry
	hosts    []hostEntry
}

type prefixEntry struct {
	netip.Prefix
	port uint16 // 0 means all ports
}

type hostEntry struct {
	name string
	port uint16 // 0 means all ports
}

func (l list) address(a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(l.prefixes, func(p prefixEntry) bool { return p.Contains(a) && (p.port == 0 || p.port == port) })
}

func (l list) host(host string, port uint16) bool {
	host = canonical(host)
	return slices.ContainsFunc(l.hosts, func(h hostEntry) bool {
		return (host == h.name || strings.HasSuffix(host, "."+h.name)) && (h.port == 0 || h.port == port)
	})
}

// with returns a copy of l with an additional host, which may be an address. Port 0 means all ports.
func (l list) with(host string, port uint16) list {
	host = strings.Trim(host, "[]")
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap().WithZone("")
		l.prefixes = append(slices.Clip(l.prefixes), prefixEntry{netip.PrefixFrom(a, a.BitLen()), port})
		return l
	}
	l.hosts = append(slices.Clip(l.hosts), hostEntry{canonical(host), port})
	return l
}

// splitPort parses "host:port". The port is 0 if the entry has no valid port.
func splitPort(entry string) (host string, port uint16) {
	host, text, err := net.SplitHostPort(entry)
	if err != nil {
		return entry, 0
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return entry, 0
	}
	return host, uint16(number)
}

func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// parse parses the entries of a flag.
func parse(flag string, entries []string) (list, error) {
	var l list
	for _, entry := range entries {
		switch prefix, err := netip.ParsePrefix(entry); {
		case err == nil && prefix.Addr().Is4In6():
			return list{}, fmt.Errorf("read %s: write %q as IPv4, as in 10.0.0.0/8", flag, entry)
		case err == nil:
			l.prefixes = append(l.prefixes, prefixEntry{Prefix: prefix.Masked()})
		default:
			host, port := splitPort(entry)
			if strings.ContainsAny(host, "/:*@ ") && !isAddress(host) || canonical(host) == "" {
				return list{}, fmt.Errorf("read %s: %q is not an address, CIDR or host name; write 10.0.0.0/8, 127.0.0.1:5000, or example.com, which includes its subdomains", flag, entry)
			}
			l = l.with(strings.TrimPrefix(host, "."), port)
		}
	}
	return l, nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
