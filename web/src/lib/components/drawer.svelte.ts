/** Whether the drawer is open; the element and the component both change it. */
export class DrawerState {
  isOpen = $state(false);
}
