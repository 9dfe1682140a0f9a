package release

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestSameGroup changes each stored field in turn, and checks that the groups
// then differ. A difference that is not detected would never be written.
func TestSameGroup(t *testing.T) {
	t.Parallel()
	whole := func() Group {
		return Group{Rollout: &Rollout{Approvals: []Approval{{}}}, Releases: []Row{{Zero: &Zero{}, Decision: &Handled{}}}}
	}
	var change func(path string, v reflect.Value, at func(*Group) reflect.Value)
	change = func(path string, v reflect.Value, at func(*Group) reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
		case v.Kind() == reflect.Pointer:
			change(path, v.Elem(), func(g *Group) reflect.Value { return at(g).Elem() })
			return
		case v.Kind() == reflect.Slice:
			change(path+"[0]", v.Index(0), func(g *Group) reflect.Value { return at(g).Index(0) })
			return
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				change(path+"."+v.Type().Field(i).Name, v.Field(i), func(g *Group) reflect.Value { return at(g).Field(i) })
			}
			return
		}
		g := whole()
		switch field := at(&g); field.Interface().(type) {
		case time.Time:
			field.Set(reflect.ValueOf(t0))
		case bool:
			field.SetBool(true)
		default:
			if field.CanInt() {
				field.SetInt(7)
			} else {
				field.SetString("x")
			}
		}
		if w := whole(); sameGroup(&g, &w) {
			t.Errorf("a change to %s is not detected", path)
		}
	}
	g := whole()
	change("Group", reflect.ValueOf(&g).Elem(), func(g *Group) reflect.Value { return reflect.ValueOf(g).Elem() })
	if a, b := whole(), whole(); !sameGroup(&a, &b) {
		t.Error("two equal groups are not the same")
	}
	for name, g := range map[string]Group{"rollout": {Releases: whole().Releases}, "rows": {Rollout: &Rollout{}}, "mark": {Rollout: &Rollout{}, Releases: []Row{{Decision: &Handled{}}}}} {
		if w := whole(); sameGroup(&g, &w) || sameGroup(&w, &g) {
			t.Errorf("the removal of the %s is not detected", name)
		}
	}
}

// TestOlderPlanRemovesNothingOfANewerRolloutState checks that a plan neither scales down nor deletes releases that a newer
// rollout state has created or revived (rule 2). Instead, the plan writes its rollout state first. This write fails if the
// rollout state is outdated.
func TestOlderPlanRemovesNothingOfANewerRolloutState(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]int{"more pods than its row requires": 2, "no row": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := tale{newWorld()}
			h.live()
			h.push("1.1.0")
			h.run(time.Hour)
			o, _, _ := h.observe(lags{})
			g := o.State.Groups[0].clone()
			g.Releases = g.Releases[:rows]
			o.State.Groups = []Group{g}
			previous := h.release("1.0.0")
			i := slices.IndexFunc(o.Objects, func(c Object) bool { return c.Release == previous })
			o.Objects[i].Replicas = 2
			for newer, taken := range []bool{true, false} {
				o.Objects[i].Stamp = o.State.Sequence + int64(newer)
				p := planWith(o, h.now, h.rules)
				if slices.ContainsFunc(p.Retire, func(r Retire) bool { return r.Release == previous }) != taken {
					t.Errorf("stamp = sequence of the rollout state + %d, want removal: %t\n%s", newer, taken, render(p))
				}
				if !taken && !p.Changed {
					t.Error("the rollout state is not written")
				}
			}
			if h.err != nil {
				t.Error(h.err)
			}
		})
	}
}
