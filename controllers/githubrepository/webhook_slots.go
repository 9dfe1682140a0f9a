package githubrepository

import "sync"

// slotCounter limits the number of concurrent deliveries per key.
type slotCounter struct {
	mu    sync.Mutex
	taken map[string]int
}

// slot is a key with its limit.
type slot struct {
	of    string
	limit int
}

// enter takes one slot of each key if every key has a free slot, and returns the function that
// releases them. It never waits.
func (p *slotCounter) enter(each ...slot) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range each {
		if p.taken[one.of] >= one.limit {
			return nil, false
		}
	}
	for _, one := range each {
		p.taken[one.of]++
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, one := range each {
			if p.taken[one.of]--; p.taken[one.of] == 0 {
				delete(p.taken, one.of)
			}
		}
	}, true
}

// count returns the number of a key's slots that are in use.
func (p *slotCounter) count(of string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken[of]
}
