package demo

import (
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shopCount is how many competitors the example watches.
const shopCount = 30

// manyPagesShop is the competitor whose catalogue has more pages than a run may
// fetch, inFocus the one that is in progress when its runner is killed.
const (
	manyPagesShop = "shop-23"
	manyPages     = 14
	inFocus       = "shop-17"
)

func shopName(n int) string { return fmt.Sprintf("shop-%02d", n) }

var shopPattern = regexp.MustCompile(`shop-(\d\d)`)

// shopIn finds the first shop that a text names; "" for none.
func shopIn(text string) string { return shopPattern.FindString(text) }

func shopNumber(shop string) int {
	m := shopPattern.FindStringSubmatch(shop)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 1 || n > shopCount {
		return 0
	}
	return n
}

// priceOf is what a shop asks for its product, in cents.
func priceOf(shop string) int { return 1990 + 37*shopNumber(shop) }

// fetch is one page that somebody asked a shop for.
type fetch struct {
	Shop, Path string
	At         time.Time
}

// web serves the shops: every path below /shop-NN is a price table.
type web struct {
	mu      sync.Mutex
	fetches []fetch
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Shop}} - prices</title><style>td{padding:4px}</style></head>
<body><nav><a href="/{{.Shop}}">{{.Shop}}</a></nav>
<h1>{{.Shop}}: {{.Title}}</h1>
<table><thead><tr><th>Product</th><th>Price</th></tr></thead><tbody>
{{range .Rows}}<tr><td>{{.Product}}</td><td>{{.Price}} USD</td></tr>
{{end}}</tbody></table>
{{range .Links}}<p><a href="{{.}}">{{.}}</a></p>
{{end}}<script>document.title += "!"</script>
</body></html>
`))

type row struct{ Product, Price string }

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	shop := shopIn(r.URL.Path)
	if shopNumber(shop) == 0 || r.Method != http.MethodGet {
		http.NotFound(rw, r)
		return
	}
	w.mu.Lock()
	w.fetches = append(w.fetches, fetch{Shop: shop, Path: r.URL.Path, At: time.Now()})
	w.mu.Unlock()
	data := struct {
		Shop, Title string
		Rows        []row
		Links       []string
	}{Shop: shop, Title: "today's prices", Rows: rows(shop)}
	if shop == manyPagesShop {
		for i := 1; i < manyPages; i++ {
			data.Links = append(data.Links, fmt.Sprintf("%s/pages/%d", strings.TrimRight(r.URL.Path, "/"), i))
		}
	}
	rw.Header().Set("content-type", "text/html; charset=utf-8")
	_ = page.Execute(rw, data)
}

// rows is a shop's price list: the product that we watch, then the rest of what
// it sells. Pages of the many pages are short.
func rows(shop string) []row {
	n := 240
	if shop == manyPagesShop {
		n = 5
	}
	out := []row{{"trail-shoe (our price " + dollars(priceOf(shop)+300) + " USD)", dollars(priceOf(shop))}}
	for i := 1; i <= n; i++ {
		out = append(out, row{fmt.Sprintf("%s, colour %d, size %d, in stock", goods[i%len(goods)], i%7, 36+i%12), dollars(900 + (i*173+shopNumber(shop)*31)%9000)})
	}
	return out
}

var goods = []string{"running sock", "rain jacket", "head lamp", "hydration vest", "trekking pole", "gaiter", "wool shirt"}

func dollars(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// count is how often pages of a shop were fetched; "" means of all shops.
func (w *web) count(shop string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, f := range w.fetches {
		if shop == "" || f.Shop == shop {
			n++
		}
	}
	return n
}
