/* Memory of arenas: they lie one behind the other in a slab, each in a slot. Programs make and free the same contexts
 * repeatedly. A freed arena keeps its pages and addresses until much of the slab was used; then one call of the system
 * moves the pages of all its arenas to other addresses, and the old ones stay reserved as long as the arenas are in
 * quarantine. A call for each arena would interrupt all threads of the process each time, since their processors have
 * to forget the addresses. For the same reason an arena begins where the memory that the one before it used ends. */
#ifndef GG_SLOTS_H
#define GG_SLOTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gg_slab gg_slab;
typedef struct gg_slot { gg_slab *slab; int number; } gg_slot;

/* Addresses for `size` bytes; *present: the first of them may have pages of freed arenas, which are not zeroed. NULL:
 * `size` is too large, or there is no memory. */
uint8_t *gg_slot_take(size_t size, gg_slot *slot, size_t *present);
/* Nobody uses an arena of `asked` bytes any more, which used at most the first `used`. Returns how many addresses it
 * still has. */
size_t gg_slot_rest(gg_slot slot, size_t asked, size_t used);
void gg_slot_release(gg_slot slot);                   /* these are no longer needed */
size_t gg_slot_limit(gg_slot slot);                   /* gg_spare_addresses() when the slab was made */
bool gg_slots_drop(void);                             /* releases the pages of arenas at rest; false: there were none */
#endif
