/** The entry of the observer page: creates its parts and draws it. */
import { render } from 'preact';
import { createApi } from './client/api.ts';
import { Observer } from './state/observer.ts';
import { createPreferences, keepToken, readToken } from './state/preferences.ts';
import { createRoute } from './state/route.ts';
import { Page } from './views/page.tsx';

let token = readToken();
// The address of the HTTP interface is always one level above the page, wherever both are mounted.
const observer = new Observer(createApi(new URL('../', location.href), () => token));
const route = createRoute();
const root = document.getElementById('page');
if (root === null) throw new Error('the document has no element for the page');

route.place.subscribe(({ session }) => observer.choose(session));
observer.start();
render(
  <Page
    observer={observer}
    route={route}
    preferences={createPreferences()}
    onToken={(given) => {
      token = given;
      keepToken(given);
      observer.start();
    }}
  />,
  root,
);
