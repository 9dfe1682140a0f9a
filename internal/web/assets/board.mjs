// This script follows the changes to a page, opens actions in a panel, and adds keyboard shortcuts to the board. Pages also work without it.
const page = document.body.dataset.page
const connection = document.getElementById('connection')
let state = document.body.dataset.state
let source

const parse = html => {
  const t = document.createElement('template')
  t.innerHTML = html
  return t.content.firstElementChild
}

// swap replaces an element. It preserves the focus and the elements that the reader opened.
function swap(old, now) {
  for (const d of old.querySelectorAll('details[open]')) {
    const same = d.id && now.querySelector('#' + CSS.escape(d.id))
    if (same) same.open = true
  }
  const focused = old.contains(document.activeElement) ? document.activeElement : null
  const links = focused && [...old.querySelectorAll('a, button, summary, input, select')].indexOf(focused)
  old.replaceWith(now)
  if (focused) now.querySelectorAll('a, button, summary, input, select')[links]?.focus({preventScroll: true})
}

function apply(patch) {
  for (const id of patch.gone ?? []) document.getElementById(id)?.remove()
  for (const e of patch.set ?? []) {
    const now = parse(e.html)
    const old = document.getElementById(e.id)
    if (old) swap(old, now)
    if (e.parent) {
      const after = e.after && document.getElementById(e.after)
      const parent = document.getElementById(e.parent)
      if (after) after.after(now)
      else if (parent.tHead) parent.tHead.after(now)
      else parent.prepend(now)
    }
    if (e.parent && old && old.textContent !== now.textContent) now.classList.add('changed')
  }
}

async function reload() {
  const response = await fetch(location.href, {headers: {Accept: 'text/html'}})
  const next = new DOMParser().parseFromString(await response.text(), 'text/html')
  const main = next.querySelector('main')
  if (!main) return location.reload()
  document.querySelector('main').replaceWith(main)
  document.title = next.title
  state = next.body.dataset.state ?? ''
  if (response.status === 401 || response.status === 503) again()
  else if (response.status >= 400) stop()
}

const show = (text, cut) => {
  connection.hidden = false
  connection.textContent = text
  connection.classList.toggle('cut', cut)
}

function start() {
  if (source || !page) return
  source = new EventSource('/live?' + new URLSearchParams({page, state}))
  source.onopen = () => show('● live', false)
  source.onerror = () => {
    show('○ not connected, trying again', true)
    // The server refused the stream, because the session has ended or the page no longer exists. Loading the page again shows the reason.
    if (source.readyState === EventSource.CLOSED) again()
  }
  source.addEventListener('patch', e => { apply(JSON.parse(e.data)); state = e.lastEventId })
  source.addEventListener('stale', reload)
}

// again loads the page again after a pause, but not while an action is open.
function again() {
  stop()
  setTimeout(() => {
    if (document.hidden) return // the stream starts when the page becomes visible
    if (dialog.open) start()
    else location.reload()
  }, 5000)
}

function stop() {
  source?.close()
  source = undefined
}

// A browser opens only a few connections to one host, so hidden pages release theirs.
document.addEventListener('visibilitychange', () => document.hidden ? stop() : start())
if (!document.hidden) start()

// Actions open in a panel. Escape closes the panel.
const dialog = document.createElement('dialog')
dialog.setAttribute('aria-label', 'Act')
document.body.append(dialog)
async function open(href) {
  const response = await fetch(href, {headers: {Accept: 'text/html'}})
  const act = new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('main > *')
  if (!act?.classList.contains('act')) return location.assign(href)
  dialog.dataset.href = href.split('?')[0]
  dialog.replaceChildren(act)
  if (!dialog.open) dialog.showModal()
  for (const first of ['[autofocus]', '.primary', 'select', 'a']) {
    const found = dialog.querySelector(first)
    if (found) return found.focus()
  }
}
document.addEventListener('click', e => {
  const link = e.target.closest('a')
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey || e.button) return
  if (link.dataset.act !== undefined) { e.preventDefault(); open(link.href) }
  if (link.dataset.close !== undefined && dialog.open) { e.preventDefault(); dialog.close() }
})
dialog.addEventListener('submit', async e => {
  const form = e.target
  e.preventDefault()
  const values = new URLSearchParams(new FormData(form, e.submitter))
  if ((e.submitter?.getAttribute('formmethod') ?? form.method) === 'get') return open(dialog.dataset.href + '?' + values)
  form.querySelectorAll('button').forEach(b => { b.disabled = true })
  const response = await fetch(form.action, {method: 'POST', body: values, headers: {Accept: 'text/html'}})
  if (response.redirected) return location.assign(response.url)
  const text = await response.text()
  const act = new DOMParser().parseFromString(text, 'text/html').querySelector('main > *')
  if (act?.classList.contains('act')) dialog.replaceChildren(act)
  else dialog.replaceChildren(...new DOMParser().parseFromString(text, 'text/html').querySelector('main').childNodes)
})

// If the reader selects another version in an action's form, show the effects of that version.
dialog.addEventListener('change', e => {
  const preview = e.target.name === 'target' && e.target.form.querySelector('[formmethod=get]')
  if (preview) e.target.form.requestSubmit(preview)
})

// The key / starts a search, and j and k move between the rows.
document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, select, textarea, dialog')) return
  const links = [...document.querySelectorAll('tbody th a')]
  const at = links.indexOf(document.activeElement)
  if (e.key === '/') { e.preventDefault(); document.querySelector('[data-shortcut="/"]')?.focus() }
  if (e.key === 'j') links[Math.min(at + 1, links.length - 1)]?.focus()
  if (e.key === 'k') links[Math.max(at - 1, 0)]?.focus()
})

// Filters are applied when they change.
for (const select of document.querySelectorAll('.filter select')) select.addEventListener('change', () => select.form.requestSubmit())
