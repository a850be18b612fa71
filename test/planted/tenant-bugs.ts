/** Planted bugs of tenants (I37). */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const tenantBugs: readonly PlantedBug[] = [
  {
    name: 'tenant-name-as-prefix',
    what: 'the sessions of a tenant whose name begins with the name of another one count as its sessions',
    file: 'src/base/ids.ts',
    find: 'return tenant === undefined || id.startsWith(tenantPrefix(tenant));',
    replace: 'return tenant === undefined || id.startsWith(tenant);',
  },
  {
    name: 'tenant-newest-of-all',
    what: 'the list by age shows the sessions of all tenants',
    file: 'src/runtime/door/runtime-requests.ts',
    find: '    if (!isOfTenant(tenant, noted.id)) continue;\n',
    replace: '',
  },
  {
    name: 'tenant-cursor-of-another',
    what: 'a reader of a tenant may have a cursor in a session of another one, and reads its log',
    file: 'src/runtime/handles/event-options.ts',
    find: 'return new Map(named.filter(([session]) => isOfTenant(tenant, session)));',
    replace: 'return new Map(named);',
  },
  {
    name: 'tenant-live-events-of-all',
    what: 'a reader of a tenant receives the live events of all sessions',
    file: 'src/events/reading/event-queue.ts',
    find: '    if (this.#options.isMeant?.(event.session) === false) return;\n',
    replace: '',
  },
  {
    name: 'tenant-get-of-another',
    what: 'a view answers with the facts of a session of another tenant',
    file: 'src/base/ids.ts',
    find: 'return owner === tenant ? id : undefined;',
    replace: 'return id;',
  },
];
